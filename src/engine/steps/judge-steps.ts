import type { StepStatus } from "./step-record.ts";
import type { StepFailure, StepRun } from "./step-run.ts";

/** The status of a step, and the time of its end. */
export interface StepOutcome {
  readonly status: StepStatus;
  readonly endAt: number | null;
}

/**
 * Judges a step and those inside it. `cutAt` is the time at which it was cut from outside: nothing of it runs since then.
 * `isPaused`: the execution is suspended.
 */
export function judge(
  run: StepRun,
  verdicts: Map<StepRun, StepOutcome>,
  cutAt: number | undefined,
  isPaused: boolean,
): StepOutcome {
  const isCut = cutAt !== undefined;
  const { end } = run;
  const failedAt = end ? undefined : findFailure(run, isCut)?.at;
  const endAt = end?.at ?? failedAt ?? cutAt;
  const inner = run.inner.map((one) => judge(one, verdicts, endAt, isPaused));
  const status =
    end?.status ?? (failedAt !== undefined ? "error" : isCut ? "aborted" : toOpenStatus(run, inner, isPaused));
  const verdict = { status, endAt: endAt ?? null };
  verdicts.set(run, verdict);
  return verdict;
}

function toOpenStatus(run: StepRun, inner: readonly StepOutcome[], isPaused: boolean): StepStatus {
  if (run.parked) return run.parked.kind === "person" || isPaused ? "suspended" : "waiting";
  if (run.failure) return "waiting";
  const open = new Set(inner.map(({ status }) => status));
  return (
    (["running", "waiting", "suspended"] as const).find((one) => open.has(one)) ?? (isPaused ? "waiting" : "running")
  );
}

/** The failure for good of a step that has not completed; undefined if it has not failed. */
export function findFailure(run: StepRun, isCut: boolean): Failure | undefined {
  const { end, failure, inner, node, loop } = run;
  if (end) return end.status === "error" ? { row: 0, message: "", ...end } : undefined;
  if (node.traits.tolerates) return undefined; // its failure is tolerated
  if (failure) return isFinal(run, isCut) ? failure : undefined;
  if (inner.length === 0 || loop?.start?.onError === "collect") return undefined;
  const all = inner.map((one) => findFailure(one, isCut));
  const failed = all.filter((one) => one !== undefined);
  if (node.traits.shape === "race") return failed.length === node.children.length ? failed.reduce(later) : undefined;
  return failed.length > 0 ? failed.reduce(earlier) : undefined;
}

type Failure = Pick<StepFailure, "row" | "at" | "message">;
/** By the order of the journal, where it is known: the clock may stand still or jump back. */
const isBefore = (one: Failure, other: Failure): boolean =>
  one.row > 0 && other.row > 0 ? one.row < other.row : one.at < other.at;
const earlier = (one: Failure, other: Failure): Failure => (isBefore(other, one) ? other : one);
const later = (one: Failure, other: Failure): Failure => (isBefore(one, other) ? other : one);

/** Rows of older versions do not say it: then a failure is final if the execution failed with it, or in a lost race. */
function isFinal({ failure, node }: StepRun, isCut: boolean): boolean {
  if (failure?.isHeld) return false;
  if (failure?.isFinal !== undefined) return failure.isFinal;
  if (failure?.endsExecution) return true;
  if (!isCut) return false;
  for (let { parent } = node; parent; { parent } = parent) if (parent.traits.shape === "race") return true;
  return false;
}
