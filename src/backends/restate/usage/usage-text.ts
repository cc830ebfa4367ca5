import type { UsageCounts, UsageRow } from "../../../engine/contract/usage.ts";
import { toPart, toSortable, toSqlText } from "../list/sql.ts";

/** The key of the usage of a conversation, or of a user outside of conversations. As `toKeyText`. */
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
/** Ids as hexadecimal bytes, in the order of the texts. Empty: none. */
const toHex = (id: string | null | undefined): string => (id == null ? "" : `x${Buffer.from(id).toString("hex")}`);
export const fromHex = (text: string): string | undefined =>
  text === "" ? undefined : Buffer.from(text.slice(1), "hex").toString();

export const countNames: readonly (keyof UsageCounts)[] = [
  "calls",
  "inputTokens",
  "outputTokens",
  "totalTokens",
  "reasoningTokens",
  "cachedInputTokens",
];
/** The parts of a text, in order. */
const columns = ["user", "conversation", "day", "model", ...countNames];
type Column = "user" | "conversation" | "day" | "model" | keyof UsageCounts;
export const toColumn = (name: Column): string => toPart(columns.indexOf(name));

/** Returns the text of a part, with the ids of its object. */
export function toPartText(key: string, part: UsagePart): string {
  const [, userId, conversationId] = JSON.parse(key) as [string, string | null, string | null];
  const ids = [toHex(userId), toHex(conversationId), toDayText(part.day), toHex(part.model)];
  return toSqlText([...ids, ...countNames.map((name) => part[name])]);
}
export function fromPartText(text: string): UsagePart {
  const [, , , day, model = "", ...counts] = text.split("|");
  const found = countNames.map((name, index) => [name, Number(counts[index])]);
  return { day: Number(day), model: fromHex(model) ?? "", ...(Object.fromEntries(found) as UsageCounts) };
}
