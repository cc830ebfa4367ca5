import * as v from "valibot";
import { addCounts, fromDay, noUsage, toDay, usageGroupings } from "../../engine/contract/usage.ts";
import type { UsageCounts, UsageGroup, UsageGrouping } from "../../engine/contract/usage.ts";
import { toCost, type Prices } from "./prices.ts";

/** The tokens of one day, user or conversation. */
export interface UsageItem extends UsageCounts {
  day?: string;
  userId?: string | null;
  conversationId?: string | null;
  /** Absent if a model has no price. */
  cost?: number;
}
export interface UsageView {
  by: UsageGrouping;
  since: string;
  until: string;
  items: UsageItem[];
  nextCursor: string | null;
}

const ItemShape = v.pipe(
  v.object({
    day: v.pipe(v.optional(v.string()), v.description("With `by=day`.")),
    userId: v.pipe(v.optional(v.nullable(v.string())), v.description("With `by=user` and `by=conversation`.")),
    conversationId: v.pipe(v.optional(v.nullable(v.string())), v.description("With `by=conversation`.")),
    calls: v.pipe(v.number(), v.description("The number of model calls.")),
    inputTokens: v.number(),
    outputTokens: v.number(),
    totalTokens: v.number(),
    reasoningTokens: v.pipe(v.number(), v.description("A part of the output.")),
    cachedInputTokens: v.pipe(v.number(), v.description("A part of the input.")),
    cost: v.pipe(v.optional(v.number()), v.description("By the `prices` of the config.")),
  }),
  v.title("UsageItem"),
);
export const UsageShape: v.GenericSchema<UsageView> = v.pipe(
  v.object({
    by: v.picklist(usageGroupings),
    since: v.string(),
    until: v.string(),
    items: v.array(ItemShape),
    nextCursor: v.nullable(v.string()),
  }),
  v.title("AgentUsage"),
);

const rule = "expected a day such as 2026-01-31";
/** A UTC day in a URL. */
export const Day: v.GenericSchema<string, number> = v.pipe(
  v.string(),
  v.check((text) => fromDate(text) !== undefined, rule),
  v.transform((text) => fromDate(text) ?? 0),
);
function fromDate(text: string): number | undefined {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : NaN;
  // `Date` parses February 30 as a day in March.
  return time >= 0 && toDate(toDay(time)) === text ? toDay(time) : undefined;
}
export const toDate = (day: number): string => new Date(fromDay(day)).toISOString().slice(0, 10);

/** Returns a group as a client sees it. */
export function toItem(group: UsageGroup, by: UsageGrouping, prices: Prices | undefined): UsageItem {
  const { day = 0, userId = null, conversationId = null, models } = group;
  const names = by === "day" ? { day: toDate(day) } : by === "user" ? { userId } : { conversationId, userId };
  const counts = [...models.values()].reduce(addCounts, noUsage);
  const cost = prices && toCost(models, prices);
  return { ...names, ...counts, ...(cost !== undefined && { cost }) };
}
