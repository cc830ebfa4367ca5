import type { Caller } from "../core/caller.ts";
import type { Clock } from "../core/clock.ts";
import type { JsonText } from "../core/json.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { SpanIds } from "../core/trace.ts";
import type { CreateWalk } from "./attempts/walk.ts";
import type { Concurrency } from "./concurrency.ts";
import type { Conversations, TurnStart } from "./conversations.ts";
import type { LiveEvent, StoredEvent } from "./events.ts";
import type { DescribedStep, Execution, ExecutionState, ExecutionStatus } from "./execution.ts";
import type { OnSettled } from "./execution-log.ts";
import type { ForkSource } from "./fork.ts";
import type { HistoryRow } from "./history.ts";
import type { ScheduleStore } from "./schedules.ts";
import type { SentEvent, Sending, Share } from "./sent-event.ts";
import type { SuspensionKind } from "./suspension.ts";
import type { UsageStore } from "./usage.ts";

/** A place for executions and conversations, as a config describes it. Inert until it is opened. */
export interface Backend {
  readonly type: string;
  /** The options of the description. Two backends of one type and equal settings are the same. */
  readonly settings?: Readonly<Record<string, unknown>>;
  /** Whether the data is in a file, which `--data` can name. Restate: no. */
  readonly hasFile?: boolean;
  /** A setting of the backend that is unsafe outside a laptop. Restate: its port can be reached from outside without keys. */
  readonly risk?: { readonly message: string; readonly hint: string } | undefined;
  /** Creates the engine. Connects to nothing and writes nothing: that is `Engine.open`. */
  readonly open: (parts: BackendParts) => OpenBackend;
  /** Reports about the stored data without opening or changing it; rejects with the reason why a server could not use it. */
  readonly inspect?: (parts: Pick<BackendParts, "root" | "file">) => Promise<Inspection>;
}
/** A backend as it is found from outside. Restate: reachable or not, version, registered URL, counts by SQL. */
export interface Inspection {
  /** The place of the data: a file, a URL. */
  readonly place: string;
  /** Short facts for a person, such as `12.0 MB`. */
  readonly facts: readonly string[];
  /** Whether a server uses it at the moment. */
  readonly isInUse: boolean;
  readonly executions: Readonly<Partial<Record<ExecutionStatus, number>>>;
}
interface OpenBackend {
  readonly engine: Engine;
  readonly conversations: Conversations;
  readonly schedules: ScheduleStore;
  readonly usage: UsageStore;
}
interface BackendParts {
  /** The folder of the config. */
  readonly root: string;
  /** A data file named on the command line or in the environment, for a backend that `hasFile`. */
  readonly file?: string | undefined;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  /** The most executions that wait for the `concurrency` of their workflow. Restate: of each key, and 1,000 at most. */
  readonly waitingExecutions: number;
  readonly executionBytes: number;
  /** The most bytes of a conversation that `Turn.history` returns. */
  readonly conversationBytes: number;
  /** The most events that are kept for waits that begin later. Restate: of each name and key, and 1,000 at most. @default 100000 */
  readonly storedEvents?: number | undefined;
  /** Beyond these, new work is refused with 507. Restate: its own server has such limits. @default 0: no limit */
  readonly storeBytes?: number | undefined;
  readonly storeFreeBytes?: number | undefined;
  readonly logger: Logger;
  /** Counts transitions and writes. @default nothing is counted */
  readonly metrics?: Metrics | undefined;
  /** Restate: not used, its timers are in its own server. @default the clock of the machine */
  readonly clock?: Clock | undefined;
  /** Restate: called on the replica that drives the execution, or that has answered the command. @default nothing */
  readonly onSettled?: OnSettled | undefined;
}

/** The code of a workflow, as a backend needs it. */
export interface Program {
  readonly steps: readonly DescribedStep[];
  readonly createWalk: CreateWalk;
  /** The treatment of an execution that was running when the process died. */
  readonly recovery: "resume" | "fail";
  /** The most executions that run at the same time. Restate: a virtual object for each key, over all replicas. */
  readonly concurrency?: Concurrency | undefined;
}

/**
 * The contract of a backend with everything above it. The lines on Restate say how a distributed backend provides a member:
 * its *register* is a virtual object that holds status and epoch of one execution, its *drive* the handler that runs it.
 */
export interface Engine {
  /** The time by which executions start, wait and end. Restate: the clock of the replica. */
  readonly clock: Clock;
  /** Opens the store. Restate: serves the endpoint. */
  open(options?: OpenOptions): Promise<void>;
  /** Records the URL of this server, for the message to a process that finds the store in use. Restate: nothing to do. */
  served(url: string): void;
  /**
   * Continues executions that were running when the last process ended, if their code still fits. Resolves when each of them
   * runs or is queued. Called once, when the server listens; no step runs before. Without `programOf` they stay as they are.
   * Restate: registers the endpoint; Restate continues executions.
   */
  recover(programOf?: (workflowId: string) => Program | undefined): Promise<void>;
  /** Whether `recover` has resolved. Restate: the endpoint is registered. */
  isRecovered(): boolean;
  /**
   * Starts an execution. Durable when it resolves; `created` is false when the id exists. An id that was made for this start
   * is `fresh`, and `awaited` if the caller gets it with the result. Restate: the register's `begin`; a drive without a
   * register if the id is awaited. `write` is called when nothing refuses the start: what it writes is part of the same
   * commit. Restate: called for a turn only, whose place in its conversation must be open.
   */
  begin(
    execution: Execution,
    program: Program,
    id?: "fresh" | "awaited",
    write?: () => Promise<void>,
    turn?: TurnStart,
  ): Promise<Begun>;
  /**
   * Starts an execution with results of another one, which fit the program.
   * Restate: the first drive reads them from the drive of the original.
   */
  fork(execution: Execution, program: Program, source: ForkSource): Promise<Begun>;
  /** Restate: a shared handler of the register. */
  state(id: string): Promise<ExecutionState | undefined>;
  /** A page of executions, newest first, with markers for long values (`listed-value`). Restate: SQL over one small state key. */
  list(filter: ListFilter): Promise<ListPage>;
  /**
   * Waits until the execution is suspended or has ended in an epoch after `afterEpoch`. Rejects with 500 when it is running
   * and cannot continue before the next start. The signal is that of the request: a caller that leaves ends the wait, not the
   * execution. Restate: an awakeable kept by the register.
   */
  settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState>;
  /**
   * The events of an execution from `afterSeq` on: stored ones, then live ones; ends after the event of the next suspension or
   * end. It listens from the call on: called before `begin`, it misses nothing. With `until: "end"` it waits through
   * suspensions; meanwhile it holds nothing but its place.
   * Restate: rows of the drive, and an awakeable that the drive resolves at its next row, or the register at the next resume.
   */
  events(
    id: string,
    afterSeq: number,
    signal: AbortSignal,
    options?: EventsOptions,
  ): AsyncGenerator<StoredEvent | LiveEvent>;
  /**
   * The starts and transitions of executions, from the call on, each once it is durable. Ends when the reader is too slow.
   * Restate: those that this replica drives or has answered.
   */
  changes(filter: Pick<ListFilter, "workflowId" | "userId">, signal: AbortSignal): AsyncGenerator<ExecutionChange>;
  /** All of these changes, each with the state that it led to. For one reader that keeps up. */
  changedStates(signal: AbortSignal): AsyncGenerator<ChangedState>;
  /**
   * These four resolve to the new state, or to false when another transition was first or the status does not allow it.
   * Restate: the register's compare-and-set; the drive hears of it by a named signal. What ends a wait by itself is a scheduled
   * call of the register, or of an event's object to it.
   */
  suspend(id: string, reason: string): Promise<ExecutionState | false>;
  resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false>;
  /** Continues a failed execution: the entries that failed, and those that were aborted because of it, run again. */
  retry(id: string, epoch: number, how: Retry, program: Program): Promise<ExecutionState | false>;
  cancel(id: string, reason: string): Promise<ExecutionState | false>;
  /**
   * Stores an event and hands it to the executions that wait for it, now or later. Durable when it resolves.
   * Restate: a virtual object for each name and key keeps it, and knows the registers that wait. An id is unique in it only,
   * and shares are parts of it.
   */
  send(event: SentEvent, share: Share): Promise<Sending>;
  /**
   * The journal of an execution, a page at a time; the first row is its start. Values over 1 KB are not loaded.
   * Restate: the rows of its drive.
   */
  history(id: string): AsyncIterable<readonly HistoryRow[]>;
  /** Returns the text of a row that `history` has not loaded. Restate: from the row. */
  rowText(id: string, row: number): Promise<JsonText | undefined>;
  /**
   * The paths of the steps that have started; undefined while the execution is driven, because it continues on its own code.
   * Restate: from the rows.
   */
  startedSteps(id: string): Promise<ReadonlySet<string> | undefined>;
  /** Returns whether executions of a workflow are running, also if they wait for a retry. Restate: on this replica only. */
  isRunning(workflowId: string): boolean;
  /** Returns the load of this process, for `GET /metrics`. Restate: this replica, without suspended executions. */
  load(workflowIds: Iterable<string>): Promise<EngineLoad>;
  /** Returns whether the store can be written, as far as is known; false before `open` has resolved. Restate: its last answer. */
  isWritable(): boolean;
  /**
   * Lets attempts in flight finish within `drainMs`, then aborts them. `beside` is other work on this backend that ends within
   * the same time. Restate: moves the rest to another replica.
   */
  close(options: { drainMs: number; beside?: Promise<unknown> }): Promise<void>;
}

export interface Begun {
  /** False when the id exists. */
  readonly created: boolean;
  /** True if it waits for the `concurrency` of its workflow, and none of its values are in memory. */
  readonly isWaiting?: boolean;
}

export interface OpenOptions {
  /** Called when the store is open. If it rejects, the store is closed again. */
  readonly mayServe?: () => Promise<unknown>;
  /** Called once, if another process has the store: it is waited for. Restate: never. */
  readonly onWait?: () => void;
}

/** The most suspended executions of a workflow that are counted: more would take too long. */
export const mostCounted = 100_000;

export interface EngineLoad {
  /** The number of executions that have a slot. */
  readonly running: number;
  /** The number of executions that wait for a slot. */
  readonly queued: number;
  /** The number of suspended executions by workflow, up to `mostCounted` of each. */
  readonly suspended?: ReadonlyMap<string, number> | undefined;
  /** Undefined on a backend without drives. */
  readonly drives?: DriveCounts | undefined;
}

/** The interruptions of drives since the start. They only grow. */
export interface DriveCounts {
  /** The attempts that repeat an interrupted one. */
  readonly retries: number;
  /** The drives that another one replaces, by cause. */
  readonly rescues: Readonly<Record<string, number>>;
}

export interface EventsOptions {
  /** `end`: events end with the execution only. @default with the next suspension as well */
  readonly until?: "end" | undefined;
}
export interface Resume {
  readonly data?: JsonText | undefined;
  readonly stepId?: string | undefined;
  /**
   * The key of the branch that is meant. The resume succeeds while that branch waits and the execution is suspended, also
   * if another branch has run and ended meanwhile.
   */
  readonly branch?: string | undefined;
  readonly by?: Caller | undefined;
  readonly trace?: SpanIds | undefined;
}
/** A retry of a failed execution. */
export type Retry = Pick<Resume, "by" | "trace">;
/** A start or a transition of an execution. */
export interface ExecutionChange {
  readonly executionId: string;
  readonly workflowId: string;
  /** The user who started it. */
  readonly userId?: string | undefined;
  readonly status: ExecutionStatus;
  /** The kind of a suspension. */
  readonly kind?: SuspensionKind | undefined;
}
/** A change with the state of its execution after it. */
export interface ChangedState {
  readonly change: ExecutionChange;
  readonly state: ExecutionState;
}
export interface ListPage {
  /** At most `limit`, and at least one if there are any. */
  readonly states: readonly ExecutionState[];
  readonly hasMore: boolean;
}
/** The executions of a list: those that fit every field. */
export interface ListFilter {
  /** @default all workflows */
  readonly workflowId?: string | undefined;
  /** Any of these. @default every status */
  readonly status?: readonly ExecutionStatus[] | undefined;
  /** Suspended for any of these reasons. @default also executions that are not suspended */
  readonly kind?: readonly SuspensionKind[] | undefined;
  /** Only executions that this user started. Null: only those without a user. */
  readonly userId?: string | null | undefined;
  /** The beginning of the id. */
  readonly idPrefix?: string | undefined;
  readonly isCancelled?: boolean | undefined;
  /** The earliest and the latest start, inclusive. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly limit: number;
  /** Only executions that started before this one. */
  readonly before?: { readonly startAt: number; readonly id: string } | undefined;
}
