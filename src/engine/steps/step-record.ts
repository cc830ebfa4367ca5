import type { StoredError } from "../execution.ts";
import type { Value } from "../walk/value.ts";
import type { ParkedStep } from "./parked-step.ts";
import type { StepNode } from "./step-tree.ts";

/** A step that began, or an iteration of a loop, as its journal tells. Values over 1 KB are references to rows. */
export interface StepRecord {
  readonly node: StepNode;
  /** The path of the step, or the iteration, that contains it. */
  readonly parent: string | undefined;
  /** The place in the order of begin. It is unique, and grows. */
  readonly order: number;
  readonly status: StepStatus;
  readonly startAt: number;
  readonly endAt: number | null;
  readonly attempts: readonly StepAttempt[];
  readonly input: Value;
  readonly output: Value;
  readonly suspension?: ParkedStep | undefined;
  /** The end of the delay before the next attempt. */
  readonly nextAttemptAt?: number | undefined;
  /** The iterations of a loop. */
  readonly count?: IterationCount | undefined;
}

/** The iteration counts of a loop, by status and in total: `andForEach` counts those before their start too. */
export type IterationCount = { readonly [Status in StepStatus]?: number } & { readonly total: number };

/** One run of a step's own code: its function, its conditions, or the checks and the map of a sub-workflow or an item. */
export interface StepAttempt {
  readonly attempt: number;
  readonly startAt: number;
  readonly endAt: number | null;
  readonly error?: StoredError | undefined;
  /** The journal key of its result, if it has failed. */
  readonly key?: string | undefined;
}

export const stepStatuses = ["waiting", "running", "suspended", "success", "skipped", "error", "aborted"] as const;
/**
 * The status of a step that began.
 * - running    its code, or a step inside it, runs
 * - waiting    an attempt has failed and the next one has no result yet, it sleeps or waits for an event while the execution
 *              runs, or the execution is suspended beside it
 * - suspended  it waits for a resume, or for a time or an event in a suspended execution, or every step in flight inside it does
 * - success, skipped
 * - error      its last attempt failed for good, or that of a step inside it which it needs
 * - aborted    it was cut: by the failure of another branch, a race that was won, a cancel, or an interruption
 */
export type StepStatus = (typeof stepStatuses)[number];
