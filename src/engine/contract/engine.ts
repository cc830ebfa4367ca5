import type { JournalRow } from "../runs/journal-row.ts";
import type { Caller } from "../../core/caller.ts";
import type { Clock } from "../../core/clock.ts";
import type { JsonText } from "../../core/json.ts";
import type { SpanIds } from "../../core/trace.ts";
import type { LiveEvent, StoredEvent, CopiedEvent, EventBody } from "../events.ts";
import type { Execution, ExecutionState, ExecutionStatus } from "../execution.ts";
import type { ForkSource } from "../fork.ts";
import type { Share } from "../rules/event-shares.ts";
import type { SentEvent, Sending } from "../stored/sent-event.ts";
import type { SuspensionKind } from "../suspension.ts";
import type { TurnStart } from "./conversations.ts";
import type { Program } from "./program.ts";

/** The contract of a backend with everything above it: one process with a file, or a cluster of replicas. */
export interface Engine {
  /** The time by which executions start, wait and end. */
  readonly clock: Clock;
  /** Opens the store. */
  open(options?: OpenOptions): Promise<void>;
  /** Records the URL of this server, for the message to a process that finds the store in use. */
  served(url: string): void;
  /**
   * Continues executions that were running when the last process ended, if their code still fits. Resolves when each of them
   * runs or is queued. Called once, when the server listens; no step runs before. Without `programOf` they stay as they are.
   */
  recover(programOf?: (workflowId: string) => Program | undefined): Promise<void>;
  /** True once `recover` has resolved. */
  isRecovered(): boolean;
  /** Starts an execution. Durable when it resolves; `created` is false when the id exists. */
  begin(execution: Execution, program: Program, options?: BeginOptions): Promise<StartResult>;
  /** Starts an execution with results of another one, which fit the program. */
  fork(execution: Execution, program: Program, source: ForkSource): Promise<StartResult>;
  state(id: string): Promise<ExecutionState | undefined>;
  /** A page of executions, newest first, with markers for long values (`listed-value`). */
  list(filter: ListFilter): Promise<ListPage>;
  /**
   * Waits until the execution is suspended or ended in an epoch after `afterEpoch`. Rejects with 500 when it is running
   * and cannot continue before the next start. The signal belongs to the request: a disconnected caller ends the wait, not the
   * execution.
   */
  settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState>;
  /**
   * The events of an execution from `afterSeq` on: stored ones, then live ones; ends after the event of the next suspension or
   * end. It listens from the call on: called before `begin`, it misses nothing. With `until: "end"` it waits through
   * suspensions; meanwhile it holds nothing but its place.
   */
  events(
    id: string,
    afterSeq: number,
    signal: AbortSignal,
    options?: EventsOptions,
  ): AsyncGenerator<StoredEvent | LiveEvent>;
  /**
   * The starts and transitions of executions that this process has run or answered, from the call on, each once it is durable.
   * Ends when the reader is too slow.
   */
  changes(filter: Pick<ListFilter, "workflowId" | "userId">, signal: AbortSignal): AsyncGenerator<ExecutionChange>;
  /** Passes all of these changes to a reader, each with the state that it led to. Ends it with the signal, or when it closes. */
  watch(reader: ChangeReader, signal: AbortSignal): void;
  /** These four resolve to the new state, or to false when another transition was first or the status does not allow it. */
  suspend(id: string, reason: string): Promise<ExecutionState | false>;
  resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false>;
  /** Continues a failed execution: failed entries run again, and so do the aborted ones beside them. */
  retry(id: string, epoch: number, how: RetryOptions, program: Program): Promise<ExecutionState | false>;
  cancel(id: string, reason: string): Promise<ExecutionState | false>;
  /** Stores an event and hands it to the executions that wait for it, now or later. Durable when it resolves. */
  send(event: SentEvent, share: Share): Promise<Sending>;
  /** The journal of an execution, a page at a time; the first row is its start. Values over 1 KB are not loaded. */
  history(id: string): AsyncIterable<readonly HistoryRow[]>;
  /** Returns the text of a row that `history` has not loaded. */
  rowText(id: string, row: number): Promise<JsonText | undefined>;
  /** The paths of the steps that have started; undefined while the execution runs, because it continues on its own code. */
  startedSteps(id: string): Promise<ReadonlySet<string> | undefined>;
  /** True if executions of a workflow are running in this process, also if they wait for a retry. */
  isRunning(workflowId: string): boolean;
  /** Returns the load of this process, for `GET /metrics`. */
  load(workflowIds: Iterable<string>): Promise<EngineLoad>;
  /** True if the store can be written, as far as is known; false before `open` has resolved. */
  isWritable(): boolean;
  /**
   * Lets attempts in flight finish within `drainMs`, then aborts them. `beside` is other work on this backend that ends within
   * the same time. Other replicas continue the rest.
   */
  close(options: { drainMs: number; beside?: Promise<unknown> }): Promise<void>;
}

export interface BeginOptions {
  /** The id was made for this start: no other execution has it. */
  readonly isFresh?: boolean | undefined;
  /** Called when nothing refuses the start: what it writes is part of the same commit. */
  readonly write?: (() => Promise<void>) | undefined;
  /** The messages of a turn, whose place in its conversation must be open. */
  readonly turn?: TurnStart | undefined;
}
export interface StartResult {
  /** False when the id exists. */
  readonly created: boolean;
  /** True if it waits for the `concurrency` of its workflow, and none of its values are in memory. */
  readonly isWaiting?: boolean;
}

export interface OpenOptions {
  /** Called when the store is open. If it rejects, the store is closed again. */
  readonly mayServe?: () => Promise<unknown>;
  /** Called once, if another process has the store: it is waited for. */
  readonly onWait?: () => void;
}

/** Max suspended executions of a workflow that are counted: more would take too long. */
export const maxCounted = 100_000;

export interface EngineLoad {
  /** The number of executions that have a slot. */
  readonly running: number;
  /** The number of executions that wait for a slot. */
  readonly queued: number;
  /** The number of suspended executions by workflow, up to `maxCounted` of each. */
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
export type RetryOptions = Pick<Resume, "by" | "trace">;
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
/** Gets each change with the state of its execution after it. */
export interface ChangeReader {
  push(change: ExecutionChange, state: ExecutionState): void;
  end(error?: unknown): void;
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

/** A row of a journal with the events that follow from it. */
export interface HistoryRow {
  /** Undefined for the start of an execution. */
  readonly row?: JournalRow | undefined;
  readonly at: number;
  readonly events: readonly EventBody[];
  /** The events of steps that a fork has copied. Undefined for all other rows, and in forks of former versions. */
  readonly copied?: readonly CopiedEvent[] | undefined;
}

/** Rows, a page at a time. */
export type HistoryPages = AsyncIterable<readonly HistoryRow[]> | Iterable<readonly HistoryRow[]>;
