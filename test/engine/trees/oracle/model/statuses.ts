import type { Row } from "../stored.ts";
import type { Model } from "./model.ts";
import { hasFailed, isOpen, type Run } from "./run.ts";

export type Status = "waiting" | "running" | "suspended" | "success" | "skipped" | "error" | "aborted";

/** The statuses of the steps that have begun, by path: items and iterations as well. */
export function statusesOf(model: Model): Map<string, Status> {
  const found = new Map<string, Status>();
  for (const run of model.runs.values()) if (!run.parent) judge(run, model.status === "ended");
  // Only the last run of each step counts. The step around it may have begun again since.
  return new Map([...model.runs].map(([path, { end }]) => [path, found.get(path) ?? end!]));

  function judge(run: Run, isCut: boolean): Status {
    const isOver = isCut || !isOpen(run) || hasFailed(run);
    const inner = run.inner.map((one) => judge(one, isOver));
    const status =
      run.end ??
      (hasFailed(run) ? "error" : isAtItsEnd(run) ? "success" : isCut ? "aborted" : toOpenStatus(run, inner));
    if (model.runs.get(run.path) === run) found.set(run.path, status);
    return status;
  }

  /** The result of its condition is recorded. */
  function isAtItsEnd(run: Run): boolean {
    return run.type === "iteration" && findHeld(run, model)?.kind === "value";
  }

  function toOpenStatus(run: Run, inner: readonly Status[]): Status {
    const isPaused = model.status === "suspended";
    const held = findHeld(run, model);
    if (held?.kind === "suspended" || run.entries.some(({ state }) => state === "asks")) return "suspended";
    if (run.wait && !run.wait.isOver) return isPaused ? "suspended" : "waiting";
    if (held?.kind === "error" || run.entries.some(({ failedAt }) => failedAt !== undefined)) return "waiting";
    const open = (["running", "waiting", "suspended"] as const).find((one) => inner.includes(one));
    return open ?? (isPaused ? "waiting" : "running");
  }
}

/** A result of a run that is recorded, and from which nothing follows yet. */
const findHeld = ({ path }: Run, { held }: Model): Row | undefined =>
  held.find(({ key }) => key.replace(/[?<>@#].*$/, "") === path);

/** The iterations of a loop by status, and of all of them: of `andForEach` also those that have not begun. */
export function countOf(run: Run, model: Model, statuses: ReadonlyMap<string, Status>): Record<string, number> {
  const { inner } = run;
  const held = findHeld(run, model);
  const count = run.count ?? (held?.kind === "loop" ? Number(/^{"count":(\d+)/.exec(held.body!)![1]) : undefined);
  const counts: Record<string, number> = { total: count ?? inner.length };
  for (const { path } of inner) counts[statuses.get(path)!] = (counts[statuses.get(path)!] ?? 0) + 1;
  return counts;
}

/** The times between which the next attempt of a step starts, by its `retry`; undefined if it starts without a delay. */
export function nextAttemptOf(run: Run, model: Model): readonly [number, number] | undefined {
  const { node, entries } = run;
  const [{ failedAt } = { failedAt: undefined }] = entries;
  if (failedAt === undefined || node.type !== "andThen" || findHeld(run, model)) return undefined;
  const delay = node.how.endsWith("slow to return") ? 8_000 : node.wait % 3;
  return delay === 0 ? undefined : [failedAt + Math.round(delay / 2), failedAt + delay];
}
