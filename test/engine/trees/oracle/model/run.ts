import type { Node } from "../../make.ts";

type End = "success" | "skipped" | "error" | "aborted";

/** Code of a step that runs once and leaves one result, in one or several attempts. */
export interface Entry {
  readonly suffix: string;
  state: "in flight" | "asks" | "failed" | "done";
  /** The number of the attempt in flight. */
  attempt: number;
  /** The time of the failure that the attempt in flight follows on. */
  failedAt: number | undefined;
  /** What it asks for, as recorded. */
  askedAt?: number | undefined;
  asked?: { readonly reason: string; readonly data?: string; readonly due?: { readonly at: number } } | undefined;
}

/** A wait for a time or an event. */
interface Wait {
  /** The time at which it began. */
  readonly at: number;
  readonly dueAt: number | undefined;
  readonly key: string | undefined;
  isOver: boolean;
}

/** One run of a step, of an item or of an iteration, as it follows from the tree and the rows. */
export interface Run {
  readonly path: string;
  /** The step; that of the loop for an item or an iteration. */
  readonly node: Node;
  readonly type: Node["type"] | "item" | "iteration";
  readonly parent: Run | undefined;
  readonly stepIndex: number;
  /** The beginning of the paths of the steps beside it. */
  readonly prefix: string;
  /** The number of an item or an iteration. */
  readonly number: number;
  readonly entries: Entry[];
  /** The runs inside it, in the order of the definition. */
  readonly inner: Run[];
  wait: Wait | undefined;
  /** The number of items, once `andForEach` knows them. */
  count: number | undefined;
  end: End | undefined;
  /** The number of the row that it began with. */
  readonly begunAt: number;
  /** It lost a race at the moment at which it began or failed: how far it came until then is not told. */
  isUnsure: boolean;
}

export const isOpen = ({ end }: Run): boolean => end === undefined;
export const isDone = ({ end }: Run): boolean => end === "success" || end === "skipped";

/** Whether a run has failed: its own code, or steps inside it that it needs. A retry may revoke that. */
export function hasFailed(run: Run): boolean {
  const { node, type, end, entries, inner } = run;
  if (end !== undefined) return end === "error";
  if (type === "andTap") return false;
  if (entries.some(({ state }) => state === "failed")) return true;
  if (type === "andRace") return inner.length > 0 && inner.every(hasFailed);
  if (type === "andForEach" && node.type === "andForEach" && node.onError === "collect") return false;
  return inner.some(hasFailed);
}

export type Leaf = { readonly run: Run } & ({ readonly entry: Entry } | { readonly wait: Wait });

/** What the branches wait for, in the order of the definition. Those beside a failure were aborted, and wait for nothing. */
export function* leavesOf(run: Run): Generator<Leaf> {
  if (!isOpen(run) || hasFailed(run)) return;
  for (const entry of run.entries) if (entry.state !== "done" && entry.state !== "failed") yield { run, entry };
  if (run.wait && !run.wait.isOver) yield { run, wait: run.wait };
  for (const one of run.inner) yield* leavesOf(one);
}

/** Whether the attempt of some code runs, or will run after its delay. */
export const isInFlight = (leaf: Leaf): leaf is Leaf & { entry: Entry } =>
  "entry" in leaf && leaf.entry.state === "in flight";

/** Every run that has not ended, from outside to inside. */
export function* openRuns(run: Run): Generator<Run> {
  if (!isOpen(run)) return;
  yield run;
  for (const one of run.inner) yield* openRuns(one);
}

/** Ends a run that is not needed any more, and what is inside it. */
export function drop(run: Run): void {
  if (!isOpen(run)) return;
  const end = hasFailed(run) ? "error" : "aborted";
  for (const one of run.inner) drop(one);
  run.end = end;
}
