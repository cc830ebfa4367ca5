import type { Execution, ExecutionState, ExecutionStatus, Transition } from "../../engine/execution.ts";

/**
 * The state of a register, by key.
 *
 * - execution  the execution as it was started, with the steps of the code that it last ran on
 * - status     the `RegisterStatus`
 * - last       the last transition
 * - commands   the transitions from outside that the current drive was sent
 * - index      the text that lists are made from (`list`)
 */
export interface RegisterStatus {
  readonly status: ExecutionStatus;
  readonly epoch: number;
  /** The invocation of the current drive; none when the execution has ended, or is suspended with nothing in flight. */
  readonly drive?: string | undefined;
  /** Callers that wait for the next suspension or end. */
  readonly waiters?: readonly WaitInput[] | undefined;
  /** The number of readers that the current drive was told of. */
  readonly watchers?: number | undefined;
  /** The token of the last change, by which a repeated call is recognised. */
  readonly token?: string | undefined;
  /** Whether the execution fails when its drive is interrupted: `recovery: "fail"`. */
  readonly failsOnCrash?: boolean | undefined;
}

/** A transition from outside, with its epoch. */
export interface Command {
  readonly epoch: number;
  readonly next: Transition;
}
export interface BeginInput {
  readonly execution: Execution;
  readonly token: string;
  readonly failsOnCrash: boolean;
}
export interface MoveInput {
  readonly next: Transition;
  /** The epoch that the change expects. Undefined: any. */
  readonly epoch?: number | undefined;
  readonly token?: string | undefined;
  /** The drive makes the transition itself, and ends after it. */
  readonly byDrive?: boolean;
  /** The steps of the code that a resume continues on. */
  readonly steps?: Execution["steps"];
}
export interface MoveResult {
  /** False when the status or the epoch does not allow the transition. */
  readonly moved: boolean;
  /** The new state. A drive is not told, it knows. */
  readonly state?: ExecutionState | undefined;
}
export interface WaitInput {
  readonly awakeable: string;
  readonly afterEpoch: number;
}
/** A reader that waits for rows after a row. */
export interface WatchInput {
  readonly awakeable: string;
  readonly afterRow: number;
}
/** The part of a register that is read often. */
export interface Brief {
  readonly status: ExecutionStatus;
  readonly epoch: number;
  readonly isDriven: boolean;
}
export interface RedriveInput {
  /** The drive that was killed. */
  readonly gone: string;
  readonly isInterrupted?: boolean | undefined;
}
/** The input of a drive. */
export interface DriveInput {
  readonly execution: Execution;
  /** Transitions that the rows may not have yet, in order. */
  readonly commands: readonly Command[];
  /** The drive before it was ended because its code is gone: the rows are compared with the code of today. */
  readonly isRescue?: boolean;
  /** The execution fails: its drive was interrupted, and its workflow has `recovery: "fail"`. */
  readonly isInterrupted?: boolean | undefined;
  readonly failsOnCrash?: boolean | undefined;
}
