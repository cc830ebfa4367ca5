import type { Execution, ExecutionState, ExecutionStatus, Transition } from "../../../engine/execution.ts";

/**
 * The state of a register, by key.
 *
 * - execution  the execution as it was started, with the steps of the code that it last ran on
 * - status     the `RegisterStatus`
 * - last       the last transition
 * - commands   the transitions from outside that the current drive may not have stored yet
 * - crashes    the `Crashes` of the execution
 * - index      the text that lists are made from (`list`)
 */
export interface RegisterStatus {
  readonly status: ExecutionStatus;
  readonly epoch: number;
  /** The invocation of the current drive; none when the execution has ended, or is suspended with nothing in flight. */
  readonly drive?: string | undefined;
  /** Callers that wait for the next suspension or end, the oldest first. */
  readonly waiters?: readonly WaitInput[] | undefined;
  readonly watchers?: Watchers | undefined;
  /** The token of the last change, by which a repeated call is recognised. */
  readonly token?: string | undefined;
  /** Whether the execution fails when its drive is interrupted: `recovery: "fail"`. */
  readonly failsOnCrash?: boolean | undefined;
  /** It began without a register. */
  readonly wasSolo?: boolean | undefined;
}

/** The readers that the current drive was told of. */
export interface Watchers {
  /** The number of signals that were sent. */
  readonly count: number;
  /** The last awakeable of each replica, with the replica, the oldest first. */
  readonly awakeables: readonly (readonly [replica: string, awakeable: string])[];
}

/** The crashes that interrupted an execution at one row. */
export interface Crashes {
  readonly row: number;
  readonly count: number;
  /** It ran with no other suspect beside it when the last one happened. */
  readonly isIsolated: boolean;
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
  readonly token: string;
  /** The steps of the code that a resume continues on. */
  readonly steps?: Execution["steps"] | undefined;
}
export interface MoveResult {
  /** The new state; undefined when the status or the epoch does not allow the transition. */
  readonly state?: ExecutionState | undefined;
  /** Nothing was changed: the drive has not stored the transitions before this one. */
  readonly isBusy?: boolean;
  /** There is no register. */
  readonly isMissing?: boolean;
}
/** A request of a drive. Its answer is a boolean, sent to an awakeable. */
export interface DriveRequest {
  readonly drive: string;
  readonly epoch: number;
  readonly reply: string;
}
export interface AdoptInput extends DriveRequest {
  /** The execution that gets a register. */
  readonly solo: Execution;
}
export interface SettleInput extends DriveRequest {
  /** The execution, if it has no register yet. */
  readonly solo?: Execution | undefined;
  readonly next: Transition;
}
export interface WaitInput {
  readonly awakeable: string;
  readonly afterEpoch: number;
}
/** A reader that waits for rows after a row. */
export interface WatchInput {
  readonly awakeable: string;
  readonly afterRow: number;
  readonly replica: string;
}
/** The part of a register that is read often. */
export interface Brief {
  readonly status: ExecutionStatus;
  readonly epoch: number;
  readonly isDriven: boolean;
}

/**
 * The reason why a drive is ended from outside.
 *
 * - code      its replica has other code than it began with
 * - journal   its code leads to other calls than Restate's journal has
 * - restart   it was interrupted, and its workflow has `recovery: "fail"`
 * - crashes   it was interrupted by too many crashes
 */
export type RescueCause = "code" | "journal" | "restart" | "crashes";
export interface RescueInput {
  /** The drive to end. */
  readonly gone: string;
  readonly cause: RescueCause;
  /** The execution, if its drive began without a register. */
  readonly solo?: Execution | undefined;
}
export interface RedriveInput {
  /** The drive that has ended. */
  readonly gone: string;
  readonly cause?: RescueCause | undefined;
  /** The execution, if it may have no register yet. */
  readonly solo?: Execution | undefined;
  /** The steps of the code that the next drive runs on. */
  readonly steps?: Execution["steps"] | undefined;
}
/** The place of a drive that was interrupted, or is about to be. */
export interface CrashInput {
  readonly drive: string;
  readonly row: number;
}
/** The input of a drive. */
export interface DriveInput {
  readonly execution: Execution;
  /** The first drive: there are no rows. */
  readonly isNew?: boolean | undefined;
  /** The first drive of an execution without a register. */
  readonly isSolo?: boolean | undefined;
  /** The first drive may not have cleared its `Solo`. */
  readonly wasSolo?: boolean | undefined;
  /** The epoch before the commands. */
  readonly epoch: number;
  /** Transitions that the rows may not have yet, in order. */
  readonly commands: readonly Command[];
  /** The drive before it was ended from outside. This one only decides how the execution continues. */
  readonly cause?: RescueCause | undefined;
  readonly failsOnCrash?: boolean | undefined;
}
