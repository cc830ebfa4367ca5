import { computed, effect, signal } from "@preact/signals";
import { actingUser } from "./acting-user.ts";
import { ask, toQuery, type ApiError } from "./server/api.ts";
import { listExecutions, toBranches, type ListedExecution, type Page, type PendingBranch } from "./executions.ts";
import { onChange, reconnects } from "./server/live.ts";
import { toApiError } from "./session.ts";
import { createThrottle } from "./server/throttle.ts";

/** A branch of an execution that waits for a person. */
export interface WaitingEntry {
  /** The same for as long as the branch waits, also if another branch of the execution continues. */
  readonly key: string;
  readonly execution: ListedExecution;
  readonly branch: PendingBranch;
  /** True if it no longer waits. It is still shown because its form is half filled in. */
  readonly isGone: boolean;
}
/** A tool call that waits for a person. */
export interface Approval {
  readonly approvalId: string;
  readonly agentId: string;
  readonly conversationId: string;
  readonly userId: string | null;
  readonly toolName: string;
  readonly input: unknown;
  readonly requestedAt: string;
  readonly mayReadConversation: boolean;
  readonly isGone?: boolean;
}

/** Everything that waits for a person, the oldest first. Undefined until it was read. */
export const waitingEntries = signal<readonly WaitingEntry[] | undefined>(undefined);
export const waitingApprovals = signal<readonly Approval[] | undefined>(undefined);
export const waitingError = signal<ApiError | undefined>(undefined);
/** The place of older entries: one more page can be shown here, or they are in Runs only. */
export const olderWaiting = signal<"none" | "page" | "elsewhere">("none");
/** True if more tool calls wait than were read. */
export const hasMoreApprovals = signal(false);
export const waitingCount = computed(
  () => [...(waitingEntries.value ?? []), ...(waitingApprovals.value ?? [])].filter(({ isGone }) => !isGone).length,
);

/** The entries and approvals with a half filled form. */
const touched = new Set<string>();
/** The entries that this page has answered, each with its suspension. A read that began before may still have them. */
const answered = new Map<string, string>();
const decided = new Set<string>();
const pageSize = 100;
/** Max pages to read, and max entries to show: an execution may wait at many branches. */
const maxPages = 10;
const maxEntries = 1_000;
let pages = 1;

const toKey = ({ executionId }: ListedExecution, { stepId }: PendingBranch): string => `${executionId} ${stepId}`;

const reads = { executions: createThrottle(readExecutions, 500), approvals: createThrottle(readApprovals, 500) };

/** Reads what waits, in every view: at the start, at each change, and again after a reconnect. */
export function followWaiting(until: AbortSignal): void {
  const stop = [
    reconnects.subscribe(readWaiting),
    onChange(({ executionId, kind }) => {
      const isShown = waitingEntries.value?.some(({ execution }) => execution.executionId === executionId);
      if (kind === "person" || isShown) reads.executions.call();
    }),
  ];
  // Approvals have no stream.
  const timer = setInterval(() => !document.hidden && reads.approvals.call(), 5_000);
  let user = actingUser();
  stop.push(
    effect(() => {
      if (actingUser() === user) return;
      user = actingUser();
      waitingApprovals.value = undefined;
      reads.approvals.call();
    }),
  );
  addEventListener("focus", readWaiting, { signal: until });
  until.addEventListener("abort", () => {
    clearInterval(timer);
    for (const one of stop) one();
  });
}

async function readExecutions(): Promise<void> {
  const asked = pages;
  try {
    const found: WaitingEntry[] = [];
    /** The shown entries that are on none of these pages. */
    const missing = new Map((waitingEntries.value ?? []).map((entry) => [entry.key, entry]));
    let hasSkipped = false;
    let cursor: string | null = null;
    let page = 0;
    do {
      const filter = { status: "suspended", kind: "person", limit: pageSize, cursor: cursor ?? undefined };
      const { items, nextCursor }: Page<ListedExecution> = await listExecutions(filter);
      const entries = items.flatMap(toEntries);
      const kept = page < pages ? entries : entries.filter(({ key }) => missing.has(key));
      found.push(...kept);
      hasSkipped ||= kept.length < entries.length;
      for (const { key } of entries) missing.delete(key);
      const until = items.at(-1)?.startAt ?? "";
      // Newer entries push shown ones to later pages. Completed ones are on no page.
      for (const [key, { execution }] of missing) if (execution.startAt > until) missing.delete(key);
      cursor = nextCursor;
      page++;
    } while (cursor !== null && page < maxPages && found.length < maxEntries && (page < pages || missing.size > 0));
    if (pages < asked) return reads.executions.call(); // the user left the view meanwhile
    if (cursor === null) missing.clear();
    const entries = merge(waitingEntries.value ?? [], found, missing);
    const isFull = pages >= maxPages || entries.length >= maxEntries;
    const hasOlder = cursor !== null || hasSkipped || entries.length > maxEntries;
    waitingEntries.value = entries.filter(({ key }, at) => at >= entries.length - maxEntries || touched.has(key));
    olderWaiting.value = hasOlder ? (isFull ? "elsewhere" : "page") : "none";
    waitingError.value = undefined;
  } catch (error) {
    waitingError.value = toApiError(error);
  }
}

function toEntries(execution: ListedExecution): WaitingEntry[] {
  return toBranches(execution)
    .filter(({ kind }) => kind === "person")
    .map((branch) => ({ key: toKey(execution, branch), execution, branch, isGone: false }))
    .filter(({ key, branch }) => answered.get(key) !== branch.suspendedAt);
}

/** Keeps the order of the entries that are shown: nothing moves under the pointer. Newer ones follow, older ones precede. */
function merge(
  before: readonly WaitingEntry[],
  found: readonly WaitingEntry[],
  unknown: ReadonlyMap<string, WaitingEntry>,
): WaitingEntry[] {
  const byKey = new Map(found.map((entry) => [entry.key, entry]));
  const kept = before.flatMap((entry) => {
    const next = byKey.get(entry.key) ?? unknown.get(entry.key);
    const isSame = next && !entry.isGone && since(next) === since(entry); // one that has not changed is not rendered again
    const now = isSame ? entry : (next ?? (touched.has(entry.key) ? { ...entry, isGone: true } : undefined));
    byKey.delete(entry.key);
    return now ? [now] : [];
  });
  const added = [...byKey.values()].toSorted((a, b) => (since(a) < since(b) ? -1 : 1));
  const first = kept[0] && since(kept[0]);
  const older = first === undefined ? [] : added.filter((entry) => since(entry) < first);
  return [...older, ...kept, ...added.slice(older.length)];
}

const since = ({ branch }: WaitingEntry): string => branch.suspendedAt;

async function readApprovals(): Promise<void> {
  const userId = actingUser();
  try {
    const { items, nextCursor } = await ask<Page<Approval>>(`/approvals${toQuery({ userId, limit: 200 })}`);
    if (actingUser() !== userId) return; // it is read again for that user
    const found = items.filter(({ approvalId }) => !decided.has(approvalId));
    const ids = new Set(found.map(({ approvalId }) => approvalId));
    const gone = (waitingApprovals.value ?? []).filter(({ approvalId: id }) => touched.has(id) && !ids.has(id));
    hasMoreApprovals.value = nextCursor !== null;
    waitingApprovals.value = [...gone.map((one) => ({ ...one, isGone: true })), ...found];
  } catch {
    waitingApprovals.value ??= []; // the user may not decide any, or the server cannot be reached: the page says so
  }
}

/** Marks an entry whose form is being filled in. */
export const touch = (key: string): void => void touched.add(key);
/** Forgets the forms that were begun, and the older pages: other views only count what waits. */
export function leaveForms(): void {
  touched.clear();
  const entries = waitingEntries.value?.filter(({ isGone }) => !isGone);
  waitingEntries.value = entries?.slice(-pageSize);
  if (entries && entries.length > pageSize) olderWaiting.value = "page";
  pages = 1;
  waitingApprovals.value = waitingApprovals.value?.filter(({ isGone }) => !isGone);
}
/** Removes an entry or an approval from the page. */
export function dismiss(key: string): void {
  touched.delete(key);
  waitingEntries.value = waitingEntries.value?.filter((entry) => entry.key !== key);
  waitingApprovals.value = waitingApprovals.value?.filter(({ approvalId }) => approvalId !== key);
}
/** Removes an entry that was answered from this page. */
export function removeAnswered({ key, branch }: WaitingEntry): void {
  if (answered.size > 1_000) answered.clear();
  answered.set(key, branch.suspendedAt);
  dismiss(key);
}
export function removeDecided(approvalId: string): void {
  if (decided.size > 1_000) decided.clear();
  decided.add(approvalId);
  dismiss(approvalId);
  reads.approvals.call();
}
export function readWaiting(): void {
  reads.executions.call();
  reads.approvals.call();
}
/** Reads one more page of older executions. */
export function showOlder(): void {
  pages = Math.min(pages + 1, maxPages);
  reads.executions.call();
}
