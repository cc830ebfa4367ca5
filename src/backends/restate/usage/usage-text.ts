import type { UsageCounts, UsageRow } from "../../../engine/contract/usage.ts";
import { toPart, toSortable, toSqlText } from "../list/sql.ts";

/** The key of the object that has the usage of a conversation, or of a user outside of conversations. As `toKeyText`. */
export const toUsageKey = ({
  agentId,
  userId,
  conversationId,
}: Pick<UsageRow, "agentId" | "userId" | "conversationId">): string =>
  JSON.stringify([agentId, userId ?? null, conversationId ?? null]);

/** The usage of an object on one day by one model. */
export type UsagePart = UsageCounts & Pick<UsageRow, "day" | "model">;

/** The state keys of usage. Others are not read by SQL. */
export const partPrefix = "d";
export const toPartKey = ({ day, model }: Pick<UsagePart, "day" | "model">): string =>
  `${partPrefix}${toDayText(day)} ${model}`;
export const dayOf = (partKey: string): number => Number(partKey.slice(partPrefix.length).split(" ")[0]);

/** Texts of equal length, so that days are in their order as texts. */
export const toDayText = (day: number): string => toSortable(day, 7);
/** Ids as hexadecimal bytes, whose order is that of the texts. Empty: none. */
const toHex = (id: string | null | undefined): string => (id == null ? "" : `x${Buffer.from(id).toString("hex")}`);
export const fromHex = (text: string): string | undefined =>
  text === "" ? undefined : Buffer.from(text.slice(1), "hex").toString();

/** The parts of a text, by name, in order. */
const columns = [
  "user",
  "conversation",
  "day",
  "model",
  "calls",
  "inputTokens",
  "outputTokens",
  "totalTokens",
  "reasoningTokens",
  "cachedInputTokens",
] as const;
export const toColumn = (name: (typeof columns)[number]): string => toPart(columns.indexOf(name));

/** Returns the text of a part, with the ids of its object. */
export function toPartText(key: string, part: UsagePart): string {
  const [, userId, conversationId] = JSON.parse(key) as [string, string | null, string | null];
  const { calls, inputTokens, outputTokens, totalTokens, reasoningTokens, cachedInputTokens } = part;
  const ids = [toHex(userId), toHex(conversationId), toDayText(part.day), toHex(part.model)];
  const counts = [calls, inputTokens, outputTokens, totalTokens, reasoningTokens, cachedInputTokens];
  return toSqlText([...ids, ...counts]);
}
export function fromPartText(text: string): UsagePart {
  const [, , , day, model = "", ...counts] = text.split("|");
  const [calls, inputTokens, outputTokens, totalTokens, reasoningTokens, cachedInputTokens] = counts.map(Number);
  return {
    day: Number(day),
    model: fromHex(model) ?? "",
    calls: calls!, // as `toPartText` writes it
    inputTokens: inputTokens!,
    outputTokens: outputTokens!,
    totalTokens: totalTokens!,
    reasoningTokens: reasoningTokens!,
    cachedInputTokens: cachedInputTokens!,
  };
}
