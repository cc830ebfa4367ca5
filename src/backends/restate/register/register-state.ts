import type { ObjectContext, ObjectSharedContext } from "@restatedev/restate-sdk";
import type { Caller } from "../../../core/caller.ts";
import type { Take } from "../../../engine/runs/find-takes.ts";
import type { CopiedEvent, EventBody } from "../../../engine/events.ts";
import type { Execution, ExecutionState, ExecutionStatus, Transition } from "../../../engine/execution.ts";
import type { GroupLimits } from "../groups/service.ts";

/**
 * The state of a register, by key.
 *
 * - execution  the execution as it was started, with the steps of its last code
 * - status     the `RegisterStatus`
 * - last       the last transition
 * - commands   the `Command`s, until the current drive has stored them
 * - crashes    the `Crashes`
 * - index      the text for lists (`list`)
 */
export interface RegisterStatus {
  readonly status: ExecutionStatus;
  readonly epoch: number;
  /** The invocation of the current drive; none after the end, or while it is suspended with nothing in flight. */
  readonly drive?: string | undefined;
  /** Callers that wait for the next suspension or end, the oldest first. */
  readonly waiters?: readonly WaitInput[] | undefined;
  readonly watchers?: Watchers | undefined;
  /** The token of the last change, by which a repeated call is recognised. */
  readonly token?: string | undefined;
  /** True if the execution fails when its drive is interrupted: `recovery: "fail"`. */
  readonly failsOnCrash?: boolean | undefined;
  /** An earlier version began it without a register. */
  readonly wasSolo?: boolean | undefined;
  readonly retriedBy?: Caller | undefined;
  /** The scheduled call that ends the suspension. */
  readonly timer?: string | undefined;
  /** The number of offers to the current drive. */
  readonly offers?: number | undefined;
  /** The mailboxes that know the execution. */
  readonly mailboxes?: readonly string[] | undefined;
  /** A search of the events for a suspended execution is on its way; `again` if there are more since. */
  readonly look?: "asked" | "again" | undefined;
  /** The limits of its group at its last start or resume. */
  readonly limits?: GroupLimits | undefined;
  /** The conversation with an answer that waits for the end, or has waited. It is told of every end: a retry is followed by one. */
  readonly conversation?: string | undefined;
}

export interface FoundExecution {
  readonly execution: Execution;
  readonly now: RegisterStatus;
}
export async function read(context: ObjectSharedContext): Promise<FoundExecution | undefined> {
  const execution = await context.get<Execution>("execution");
  const now = await context.get<RegisterStatus>("status");
  return execution && now ? { execution, now } : undefined;
}
export async function toState(context: ObjectSharedContext): Promise<ExecutionState | null> {
  const found = await read(context);
  if (!found) return null;
  const { execution, now } = found;
  const last = (await context.get<Transition>("last")) ?? undefined;
  const { status, epoch, retriedBy } = now;
  return { execution, status, epoch, last, retriedBy };
}

type Invocation = Parameters<ObjectContext["invocation"]>[0];
export const toInvocation = (id: string): Invocation => id as Invocation; // an id is a text with a brand

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
  /** It runs, and is the last suspect that its replica has started. */
  readonly isIsolated: boolean;
  /** It runs beside a suspect that was started later. */
  readonly isBeside?: true | undefined;
  /** All its code waits for other executions: an interruption is not counted. */
  readonly isAbsent?: true | undefined;
}

/** A requested transition or a wake, with its epoch. */
export interface Command {
  readonly epoch: number;
  readonly next: Transition;
  /** The events that end waits. Without any, a wake ends the waits that are due. */
  readonly takes?: readonly Take[] | undefined;
}
/** The results that a fork begins with. Their values stay with the original until they are copied. */
export interface Copies {
  readonly from: string;
  /** The number of each row in the original, its key in the fork, and its events of copied steps, in order. */
  readonly rows: readonly (readonly [number: number, key: string, copied?: readonly CopiedEvent[]])[];
  /** The events of the start, and of the copied steps that begin with it. */
  readonly events: readonly EventBody[];
  /** Undefined in a call of a former version, like the events of the rows. */
  readonly copied?: readonly CopiedEvent[] | undefined;
  /** The transition of a fork that ends at once: its last steps have no code. */
  readonly next?: Transition | undefined;
}

export interface BeginInput {
  readonly execution: Execution;
  readonly token: string;
  readonly failsOnCrash: boolean;
  readonly copies?: Copies | undefined;
  readonly limits?: GroupLimits | undefined;
}
/** The answer to the start of a child: as of `begin`, or why its parent has not started it. */
export type ChildStartResult = boolean | "full" | "missing" | "cancelled" | "many";
export interface MoveInput {
  readonly next: Transition;
  /** The epoch that the change expects. Undefined: any. */
  readonly epoch?: number | undefined;
  readonly token: string;
  /** The steps of the code that a resume or a retry continues on. */
  readonly steps?: Execution["steps"] | undefined;
  readonly limits?: GroupLimits | undefined;
  /** The key of a branch. While it waits, any epoch of a suspension is the expected one. */
  readonly branch?: string | undefined;
}
/** The events that a suspended execution takes, found in an epoch. */
export interface TakeInput {
  readonly epoch: number;
  readonly at: number;
  readonly takes: readonly Take[];
  /** The code of today does not fit. */
  readonly isChanged?: boolean | undefined;
}
/** A drive whose branches wait for events. */
export interface ListenInput {
  readonly drive: string;
  readonly mailboxes: readonly string[];
}
/** The request to search the events for a suspended execution. */
export interface AcceptInput {
  readonly execution: Execution;
  readonly epoch: number;
}
export interface MoveResult {
  /** The new state; undefined when the status or the epoch does not allow the transition. */
  readonly state?: ExecutionState | undefined;
  /** Nothing was changed: the drive has not stored the transitions before this one. */
  readonly isBusy?: boolean;
  readonly isMissing?: boolean;
  /** Nothing was changed: too many executions wait for the concurrency of the workflow. */
  readonly isFull?: boolean;
}
/** The part of a message by which a drive with an earlier version gets a register. */
interface WithSolo {
  /** The execution, if it may have no register. */
  readonly solo?: Execution | undefined;
}
/** A request of a drive. Its answer is a boolean, sent to an awakeable. */
export interface DriveRequest {
  readonly drive: string;
  readonly epoch: number;
  readonly reply: string;
}
export interface SettleInput extends DriveRequest, WithSolo {
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
  /** The epoch of a suspension, if the reader has all its rows and waits for the next transition. */
  readonly suspendedEpoch?: number | undefined;
}
/** The part of a register that is read often. */
export interface Brief {
  readonly status: ExecutionStatus;
  readonly epoch: number;
  readonly isDriven: boolean;
}

/**
 * The reason why a rescue ends a drive.
 *
 * - code      its replica has other code than it began with
 * - journal   its code leads to other calls than Restate's journal has
 * - restart   it was interrupted, and its workflow has `recovery: "fail"`
 * - crashes   it was interrupted by too many crashes
 * - original  it is a fork, and its original was removed before all results were copied
 */
export type RescueCause = "code" | "journal" | "restart" | "crashes" | "original";
export interface RescueInput extends WithSolo {
  readonly gone: string;
  readonly cause: RescueCause;
}
export interface RedriveInput extends WithSolo {
  readonly gone: string;
  readonly cause?: RescueCause | undefined;
  /** The steps of the code that the next drive runs on. */
  readonly steps?: Execution["steps"] | undefined;
}
/** The place of a drive that was interrupted, or is about to be. */
export interface CrashInput {
  readonly drive: string;
  readonly row: number;
}
export interface DriveInput {
  readonly execution: Execution;
  /** The first drive: there are no rows. */
  readonly isNew?: boolean | undefined;
  /** An earlier version began the execution without a register, with this drive or with one before. */
  readonly isSolo?: boolean | undefined;
  readonly wasSolo?: boolean | undefined;
  /** The epoch before the commands. */
  readonly epoch: number;
  /** Transitions that the rows may not have yet, in order. */
  readonly commands: readonly Command[];
  /** The cause of the rescue that ended the previous drive. This drive only decides how the execution continues. */
  readonly cause?: RescueCause | undefined;
  readonly failsOnCrash?: boolean | undefined;
  /** The results that a fork begins with. This drive only copies them. */
  readonly copies?: Copies | undefined;
  /** The caller of the last retry. */
  readonly retriedBy?: Caller | undefined;
}
