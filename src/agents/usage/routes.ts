import * as v from "valibot";
import type { Clock } from "../../core/clock.ts";
import { forbidden, type ActionRequest } from "../../core/access/authorizer.ts";
import { badRequest } from "../../core/error.ts";
import { invalidCursor } from "../../engine/stored/stored-conversation.ts";
import {
  addCounts,
  fromDay,
  noUsage,
  toDay,
  usageGroupings,
  type UsageGroup,
  type UsageGrouping,
  type UsageStore,
} from "../../engine/contract/usage.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import { wholeNumber } from "../../http/input.ts";
import { findAgent, type AgentsOfSnapshot } from "../find-agent.ts";
import { toCost, type Prices } from "./prices.ts";

export interface UsageRoutesOptions {
  readonly usage: UsageStore;
  readonly clock: Clock;
}
interface UsageSnapshot extends AgentsOfSnapshot {
  readonly config: { readonly prices?: Prices | undefined };
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
const UsageShape = v.pipe(
  v.object({
    by: v.picklist(usageGroupings),
    since: v.string(),
    until: v.string(),
    items: v.array(ItemShape),
    nextCursor: v.nullable(v.string()),
  }),
  v.title("AgentUsage"),
);

const dayMessage = "expected a day such as 2026-01-31";
/** A UTC day in a URL. */
const Day = v.pipe(
  v.string(),
  v.check((text) => fromDate(text) !== undefined, dayMessage),
  v.transform((text) => fromDate(text) ?? 0),
);

/** The days of a page without `since`, the last one included. */
const defaultDays = 30;

const UsageQuery = v.object({
  since: v.pipe(v.optional(Day), v.description("The first UTC day. The default is 29 days before `until`.")),
  until: v.pipe(v.optional(Day), v.description("The last UTC day. The default is today.")),
  by: v.optional(v.picklist(usageGroupings, "expected day, user or conversation")),
  userId: v.pipe(
    v.optional(v.pipe(v.string(), v.nonEmpty("expected an id"))),
    v.description("Only the calls of this user."),
  ),
  limit: v.optional(wholeNumber(1, 1_000, "expected 1 to 1000")),
  cursor: v.optional(v.string()),
});

export function usageRoutes({ usage, clock }: UsageRoutesOptions): readonly Route<UsageSnapshot>[] {
  return [
    defineRoute({
      method: "GET",
      path: "/agents/:id/usage",
      summary: "Read the tokens that an agent has used, by day, user or conversation",
      description:
        "Days are UTC, and both `since` and `until` are included. With `ownership`, callers read their own usage. `by=day` has the last day first. `userId` and `conversationId` are null for calls without one. `cost` is there if `prices` of the config has each model of the row. `cursor` is the `nextCursor` of the page before, with the same query.",
      access: "protected",
      action: "usage.read",
      yields: true,
      query: UsageQuery,
      responses: { 200: UsageShape },
      errors: {
        403: "The caller may read only their own usage",
        404: "Agent not found",
        503: "Storage cannot be read, or the server is shutting down",
      },
      find: ({ params, query, ...request }) =>
        findReadable(request, findAgent(request.snapshot, params.id).definition.id, query.userId),
      async handle({ params, query, found, snapshot }) {
        const { by = "day", limit = 200, cursor } = query;
        const { since, until } = toDays(query, toDay(clock.now()));
        const after = cursor === undefined ? undefined : fromCursor(cursor, by);
        const filter = { agentId: params.id, by, since, until, limit, after };
        const { groups, hasMore } = found ? await usage.read({ ...filter, ...found }) : nothing;
        const last = hasMore ? groups.at(-1) : undefined;
        return {
          by,
          since: toDate(since),
          until: toDate(until),
          items: groups.map((group) => toItem(group, by, snapshot.config.prices)),
          nextCursor: last ? toCursor(last.cursor, by) : null,
        };
      },
    }),
  ];
}

const nothing = { groups: [], hasMore: false };

function toDays(given: { since?: number | undefined; until?: number | undefined }, today: number) {
  const { until = Math.max(today, given.since ?? today) } = given;
  const { since = Math.max(0, until - defaultDays + 1) } = given;
  if (since > until) throw badRequest("Invalid query: until: expected a day that is not before since");
  return { since, until };
}

const toCursor = (place: string, by: UsageGrouping): string => Buffer.from(`${by} ${place}`).toString("base64url");
function fromCursor(cursor: string, by: UsageGrouping): string {
  const text = Buffer.from(cursor, "base64url").toString();
  if (!text.startsWith(`${by} `)) throw invalidCursor();
  return text.slice(by.length + 1);
}

/** The usage for a caller: of one user, or of all users. Undefined: none. */
type ReadableUsage = { readonly userId: string | undefined } | undefined;

/** Returns the usage for the caller by `authorize`, else by `ownership`. Rejects with 403 if the caller may not read it. */
async function findReadable(
  { action, identity, snapshot: { authorizer } }: ActionRequest,
  agentId: string,
  userId: string | undefined,
): Promise<ReadableUsage> {
  const { ownership, caller } = identity;
  const own = caller?.userId;
  const isOwn = own !== undefined && userId === own;
  const usage = Object.freeze({ userId, isOwn });
  const allowed = await authorizer?.ask({ action, user: caller?.user, agentId, usage });
  if (allowed === false) throw forbidden();
  if (allowed === true || !ownership) return { userId };
  if (userId !== undefined && !isOwn) throw forbidden();
  return own === undefined ? undefined : { userId: own }; // calls without a user have no owner
}

/** Returns a group as a client sees it. */
function toItem(group: UsageGroup, by: UsageGrouping, prices: Prices | undefined): v.InferOutput<typeof ItemShape> {
  const { day = 0, userId = null, conversationId = null, models } = group;
  const names = by === "day" ? { day: toDate(day) } : by === "user" ? { userId } : { conversationId, userId };
  const counts = [...models.values()].reduce(addCounts, noUsage);
  const cost = prices && toCost(models, prices);
  return { ...names, ...counts, ...(cost !== undefined && { cost }) };
}

function fromDate(text: string): number | undefined {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : NaN;
  // `Date` parses February 30 as a day in March.
  return time >= 0 && toDate(toDay(time)) === text ? toDay(time) : undefined;
}
const toDate = (day: number): string => new Date(fromDay(day)).toISOString().slice(0, 10);
