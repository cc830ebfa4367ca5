/**
 * The tokens that model calls have used.
 *
 * US1. A call that an attempt records is counted in the commit of its record: a crash neither loses it nor counts it twice.
 * US2. A call without a record is counted when it ends, by `UsageStore.count`.
 * US3. A row is the sum of the calls of one agent, user, conversation, day and model.
 * US4. Rows outlive their conversation. Once it is deleted, they belong to none.
 */
export interface UsageStore {
  /** Counts a model call that ended. It is stored within about a second: a crash before that loses it. */
  count(row: UsageRow): void;
  /** A page of sums. Calls of the last second may be missing. */
  read(filter: UsageFilter): Promise<UsagePage>;
}

/** The sums of some model calls. A number that a provider does not report is 0. */
export interface UsageCounts {
  readonly calls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly totalTokens: number;
  /** A part of the output. */
  readonly reasoningTokens: number;
  /** A part of the input. */
  readonly cachedInputTokens: number;
}
export interface UsageRow extends UsageCounts {
  readonly agentId: string;
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  /** The UTC day, as a number of days since 1970. */
  readonly day: number;
  /** The provider and the id of the model, with a slash between them. */
  readonly model: string;
}

/** The field by which calls are added up. A conversation belongs to its user: equal ids of two users are two groups. */
export const usageGroupings = ["day", "user", "conversation"] as const;
export type UsageGrouping = (typeof usageGroupings)[number];

export interface UsageFilter {
  readonly agentId: string;
  /** @default all users, and calls without one */
  readonly userId?: string | undefined;
  readonly by: UsageGrouping;
  /** The first and the last day. */
  readonly since: number;
  readonly until: number;
  readonly limit: number;
  /** The cursor of the group before the page. @default the page is the first */
  readonly after?: string | undefined;
}
/** Groups in their order: the last day first; users and conversations by their ids, and those without one first. */
export interface UsagePage {
  readonly groups: readonly UsageGroup[];
  readonly hasMore: boolean;
}
/** The calls of one day, user or conversation. Only the fields of its grouping are set. */
export interface UsageGroup {
  readonly day?: number;
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  /** The sums of each model. */
  readonly models: ReadonlyMap<string, UsageCounts>;
  readonly cursor: string;
}

const dayMs = 86_400_000;
export const toDay = (time: number): number => Math.floor(time / dayMs);
export const fromDay = (day: number): number => day * dayMs;

/** The days for which usage is kept, today not included. */
export const usageDays = 400;

export const noUsage: UsageCounts = {
  calls: 0,
  inputTokens: 0,
  outputTokens: 0,
  totalTokens: 0,
  reasoningTokens: 0,
  cachedInputTokens: 0,
};

export const addCounts = (one: UsageCounts, other: UsageCounts): UsageCounts => ({
  calls: one.calls + other.calls,
  inputTokens: one.inputTokens + other.inputTokens,
  outputTokens: one.outputTokens + other.outputTokens,
  totalTokens: one.totalTokens + other.totalTokens,
  reasoningTokens: one.reasoningTokens + other.reasoningTokens,
  cachedInputTokens: one.cachedInputTokens + other.cachedInputTokens,
});
