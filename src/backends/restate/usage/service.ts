import type { InvocationId, ObjectContext } from "@restatedev/restate-sdk";
import { addCounts, fromDay, usageDays, type UsageCounts, type UsageRow } from "../../../engine/contract/usage.ts";
import { shortHandlers, type ObjectService, type ServiceParts } from "../calls.ts";
import { toPart, toSortable, toSqlText } from "../list/list-index.ts";

/** The time for which a replica may send the same counts again. */
const sentAgainMs = 3_600_000;
/** The counts that one message has when an object is emptied. */
const partsAtOnce = 500;

/**
 * The usage of one conversation, or of one user outside of conversations. Its state: a text for each day and model, for lists by
 * SQL; `expiry`, the scheduled removal of old days; `first`, the day of that removal.
 */
export function createUsage({ calls, object }: ServiceParts): ObjectService {
  /** Schedules the removal of a day. */
  async function schedule(context: ObjectContext, day: number, now: number): Promise<void> {
    context.set("first", day);
    context.set(
      "expiry",
      await calls.send(context, "usage/expire", null, { delayMs: Math.max(0, toExpiry(day) - now) }),
    );
  }

  const options = { ...shortHandlers, idempotencyRetention: sentAgainMs };
  return object("usage", options, {
    async add(context, parts: readonly UsagePart[]): Promise<void> {
      for (const part of parts) {
        const key = toPartKey(part);
        const text = await context.get<string>(key);
        const sum = text === null ? part : { ...part, ...addCounts(fromPartText(text), part) };
        context.set(key, toPartText(context.key, sum));
      }
      const day = Math.min(...parts.map((part) => part.day));
      if (day >= ((await context.get<number>("first")) ?? Infinity)) return;
      await cancelExpiry(context);
      await schedule(context, day, await context.date.now());
    },

    /** The conversation is deleted: its usage belongs to its user only. */
    async release(context): Promise<void> {
      const keys = await partKeysOf(context);
      await cancelExpiry(context);
      const [agentId, userId] = JSON.parse(context.key) as [string, string | null];
      const key = toUsageKey({ agentId, userId: userId ?? undefined });
      for (let from = 0; from < keys.length; from += partsAtOnce) {
        const parts: UsagePart[] = [];
        for (const partKey of keys.slice(from, from + partsAtOnce)) {
          const text = await context.get<string>(partKey);
          if (text !== null) parts.push(fromPartText(text));
        }
        calls.tell(context, "usage/add", parts, { key });
      }
      context.clearAll();
    },

    /** Removes days whose time is over. */
    async expire(context): Promise<void> {
      if ((await context.get<string>("expiry")) !== context.request().id) return; // its conversation was deleted
      const now = await context.date.now();
      const keys = await partKeysOf(context);
      const isOver = (key: string): boolean => toExpiry(dayOf(key)) <= now;
      for (const key of keys.filter(isOver)) context.clear(key);
      const left = keys.filter((key) => !isOver(key)).map(dayOf);
      if (left.length === 0) return context.clearAll();
      await schedule(context, Math.min(...left), now);
    },
  });
}

async function cancelExpiry(context: ObjectContext): Promise<void> {
  const expiry = await context.get<InvocationId>("expiry");
  if (expiry !== null) context.cancel(expiry);
}

/** The first moment at which a day is older than `usageDays`. */
const toExpiry = (day: number): number => fromDay(day + usageDays + 1);
const partKeysOf = async (context: ObjectContext): Promise<string[]> =>
  (await context.stateKeys()).filter((key) => key.startsWith(partPrefix)).toSorted();

/** The key of the usage of a conversation, or of a user outside of conversations. As `toKeyText`. */
export const toUsageKey = ({
  agentId,
  userId,
  conversationId,
}: Pick<UsageRow, "agentId" | "userId" | "conversationId">): string =>
  JSON.stringify([agentId, userId ?? null, conversationId ?? null]);

/** The usage of an object on one day by one model. */
export type UsagePart = UsageCounts & Pick<UsageRow, "day" | "model">;

export const toUsagePart = ({ agentId: _agent, userId: _user, conversationId: _id, ...part }: UsageRow): UsagePart =>
  part;

/** The state keys of usage. Others are not read by SQL. */
export const partPrefix = "d";
const toPartKey = ({ day, model }: Pick<UsagePart, "day" | "model">): string =>
  `${partPrefix}${toDayText(day)} ${model}`;
const dayOf = (partKey: string): number => Number(partKey.slice(partPrefix.length).split(" ")[0]);

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
function toPartText(key: string, part: UsagePart): string {
  const [, userId, conversationId] = JSON.parse(key) as [string, string | null, string | null];
  const ids = [toHex(userId), toHex(conversationId), toDayText(part.day), toHex(part.model)];
  return toSqlText([...ids, ...countNames.map((name) => part[name])]);
}
function fromPartText(text: string): UsagePart {
  const [, , , day, model = "", ...counts] = text.split("|");
  const found = countNames.map((name, index) => [name, Number(counts[index])]);
  return { day: Number(day), model: fromHex(model) ?? "", ...(Object.fromEntries(found) as UsageCounts) };
}
