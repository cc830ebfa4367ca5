import { computed, effect, signal } from "@preact/signals";
import { actingUser } from "./acting-user.ts";
import { ask, toQuery, type ApiError } from "./api.ts";
import { listExecutions, toBranches, type ListedExecution, type Page, type PendingBranch } from "./executions.ts";
import { onChange, reconnects } from "./live.ts";
import { toApiError } from "./session.ts";
import { createThrottle } from "./throttle.ts";

/** A branch of an execution that waits for a person. */
export interface WaitingEntry {
  /** The same for as long as the branch waits, also if another branch of the execution continues. */
  readonly key: string;
  readonly execution: ListedExecution;
  readonly branch: PendingBranch;
  /** True if it no longer waits. It is still shown because the user has begun to fill in its form. */
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
  readonly isGone?: boolean;
}

/** Everything that waits for a person, the oldest first. Undefined until it was read. */
export const waitingEntries = signal<readonly WaitingEntry[] | undefined>(undefined);
export const waitingApprovals = signal<readonly Approval[] | undefined>(undefined);
export const waitingError = signal<ApiError | undefined>(undefined);
/** True if more executions wait than were read. */
export const hasMoreWaiting = signal(false);
export const waitingCount = computed(
  () => [...(waitingEntries.value ?? []), ...(waitingApprovals.value ?? [])].filter(({ isGone }) => !isGone).length,
);

/** The entries and approvals whose forms the user has begun to fill in. */
const touched = new Set<string>();
/** The entries that this page has answered, with the suspension that was answered: a read that began before may have them. */
const answered = new Map<string, string>();
const decided = new Set<string>();
const pageSize = 100;
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
  try {
    const found: ListedExecution[] = [];
    let cursor: string | null = null;
    for (let page = 0; page < pages && (page === 0 || cursor !== null); page++) {
      const filter = { status: "suspended", kind: "person", limit: pageSize, cursor: cursor ?? undefined };
      const { items, nextCursor }: Page<ListedExecution> = await listExecutions(filter);
      found.push(...items);
      cursor = nextCursor;
    }
    waitingEntries.value = merge(waitingEntries.value ?? [], found.flatMap(toEntries));
    hasMoreWaiting.value = cursor !== null;
    waitingError.value = undefined;
  } catch (error) {
    waitingError.value = toApiError(error);
  }
}

function toEntries(execution: ListedExecution): WaitingEntry[] {
  return toBranches(execution)
    .filter(({ kind }) => kind === "person")
    .map((branch) => ({ key: toKey(execution, branch), execution, branch, isGone: false }))
    .filter(({ key }) => answered.get(key) !== execution.suspension?.suspendedAt);
}

/** Keeps the order of the entries that are shown: nothing moves under the pointer. Newer ones follow, older ones precede. */
function merge(before: readonly WaitingEntry[], found: readonly WaitingEntry[]): WaitingEntry[] {
  const byKey = new Map(found.map((entry) => [entry.key, entry]));
  const kept = before.flatMap((entry) => {
    const now = byKey.get(entry.key) ?? (touched.has(entry.key) ? { ...entry, isGone: true } : undefined);
    byKey.delete(entry.key);
    return now ? [now] : [];
  });
  const since = ({ execution }: WaitingEntry): string => execution.suspension?.suspendedAt ?? "";
  const added = [...byKey.values()].toSorted((a, b) => (since(a) < since(b) ? -1 : 1));
  const first = kept[0] && since(kept[0]);
  const older = first === undefined ? [] : added.filter((entry) => since(entry) < first);
  return [...older, ...kept, ...added.slice(older.length)];
}

async function readApprovals(): Promise<void> {
  const userId = actingUser();
  try {
    const { items } = await ask<Page<Approval>>(`/approvals${toQuery({ userId, limit: 200 })}`);
    if (actingUser() !== userId) return; // it is read again for that user
    const found = items.filter(({ approvalId }) => !decided.has(approvalId));
    const ids = new Set(found.map(({ approvalId }) => approvalId));
    const gone = (waitingApprovals.value ?? []).filter(({ approvalId: id }) => touched.has(id) && !ids.has(id));
    waitingApprovals.value = [...gone.map((one) => ({ ...one, isGone: true })), ...found];
  } catch {
    waitingApprovals.value ??= []; // the user may not decide any, or the server cannot be reached: the page says so
  }
}

/** Marks an entry whose form is being filled in. */
export const touch = (key: string): void => void touched.add(key);
/** Forgets the forms that were begun. */
export function leaveForms(): void {
  touched.clear();
  waitingEntries.value = waitingEntries.value?.filter(({ isGone }) => !isGone);
  waitingApprovals.value = waitingApprovals.value?.filter(({ isGone }) => !isGone);
}
/** Removes an entry or an approval from the page. */
export function dismiss(key: string): void {
  touched.delete(key);
  waitingEntries.value = waitingEntries.value?.filter((entry) => entry.key !== key);
  waitingApprovals.value = waitingApprovals.value?.filter(({ approvalId }) => approvalId !== key);
}
/** Removes an entry that was answered from this page. */
export function removeAnswered({ key, execution }: WaitingEntry): void {
  if (answered.size > 1_000) answered.clear();
  answered.set(key, execution.suspension?.suspendedAt ?? "");
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
  pages++;
  reads.executions.call();
}
