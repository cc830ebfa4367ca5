import type { Clock, ClockTimer } from "../../core/clock.ts";
import { longestTimerMs } from "../../core/duration.ts";
import type { JsonText } from "../../core/json.ts";
import type { CreateWalk, Walk } from "../attempts/walk.ts";
import type { EventBody, LiveEvent } from "../events.ts";
import type { Execution, ExecutionState, ExecutionStatus, Position, Transition } from "../execution.ts";
import type { FailedStep } from "../execution-log.ts";
import { inputRow, type Value } from "../walk/value.ts";
import type { AttemptPlan, AttemptResult, JournalInput } from "../walk/decision.ts";
import { fromRow, textOf, toCommand, toCommandRow, toEntryResult, toEntryRow, type JournalRow } from "./journal-row.ts";

/** The result of one input: the unit of a commit. */
export interface Change {
  /** The journal row of the input; undefined for the start of an execution, which has no row. */
  readonly row: JournalRow | undefined;
  readonly at: number;
  /** The events of the decision. Those of the transitions come after them. */
  readonly events: readonly EventBody[];
  /** The transitions, in order: that of a command, then that of the decision. */
  readonly transitions: readonly Transition<Value>[];
  /** The epoch before these transitions. */
  readonly epoch: number;
  /** The number of the last event, those of the transitions included. */
  readonly seq: number;
  readonly starts: readonly AttemptPlan[];
}

/** A change as it was committed. */
export interface Commit<State> {
  readonly events: readonly EventBody[];
  /** The states that the transitions led to, in order. */
  readonly states: readonly State[];
}

/** The callbacks of a commit. Exactly one of `done` and `fail` is called, unless `stalled` has dropped the change. They must not throw. */
export interface Reactions<State> {
  /** The change is durable. Undefined: nothing was written, because another writer was first or the run is released. */
  readonly done: (commit: Commit<State> | undefined) => void;
  /** The change can never be written. */
  readonly fail: (error: unknown) => void;
  /** The store cannot be written for now. Returns whether to drop the change; otherwise it waits until it can be. */
  readonly stalled: (cause: unknown) => boolean;
}

/** The process around a run: its backend, its readers and waiters. */
export interface RunHost<State extends ExecutionState> {
  /** The most bytes of the input and all values of one execution. */
  readonly executionBytes: number;
  readonly clock: Clock;
  /** Reserves the number of the next journal row. */
  newRow(): number;
  readRow(run: Run<State>, row: number): JsonText | undefined;
  /** Writes a change in one transaction, and calls `done` in the order of the commits. */
  commit(run: Run<State>, change: Change, reactions: Reactions<State>): void;
  publish(run: Run<State>, change: Change, commit: Commit<State>): void;
  publishLive(event: LiveEvent): void;
  /** A result waits until the store can be written again. */
  stalled(run: Run<State>, cause: unknown): void;
  /** A result of the run can never be written. */
  failed(run: Run<State>, error: unknown): void;
  /** A change was committed, or an attempt has ended: the run may be idle now. */
  progressed(run: Run<State>): void;
}

/**
 * One execution that this process drives.
 *
 * It owns the order of the changes of its execution, and the attempts that wait for their start. Its life: created →
 * replayed, if the execution is not new → admitted to a slot → idle → released (`release`).
 * It never writes by itself, and never answers a caller from what is only decided.
 *
 * R1. Every change goes through `#advance`: decide → commit → publish → start.
 * R2. Nothing of a change is published or started before its commit. `decided` is ahead of `committed` by what is being written.
 * R3. Changes are committed in the order in which they were decided.
 * R4. An attempt starts only while the run is admitted and not stopped, the decided and the committed status are both
 *     `running`, and a branch waits for its entry.
 * R5. After `release` it changes nothing any more: changes that wait for their commit are dropped (`isReleased`).
 */
export class Run<State extends ExecutionState = ExecutionState> {
  readonly execution: Execution;
  #committed: State;
  #decided: { readonly status: ExecutionStatus; readonly epoch: number } = { status: "running", epoch: 0 };
  readonly #host: RunHost<State>;
  readonly #walk: Walk;
  /** The number of the last event decided. */
  #seq = 0;
  /** The bytes of the input and of all rows. */
  #bytes: number;
  /** The number of changes that are being written. */
  #writing = 0;
  /** The rows that are being written, for values that refer to them. */
  readonly #unwritten = new Map<number, JournalRow>();
  /** The attempts to start, and the time before which they may not. */
  readonly #planned = new Map<AttemptPlan, number>();
  #timer: ClockTimer | undefined;
  #admitted = false;
  #stopped = false;
  #released = false;

  constructor(state: State, createWalk: CreateWalk, host: RunHost<State>) {
    this.execution = state.execution;
    this.#committed = state;
    this.#host = host;
    this.#bytes = Buffer.byteLength(state.execution.input);
    this.#walk = createWalk(state.execution, {
      readRow: (row) => this.#readForAttempt(row),
      publishLive: (event) => host.publishLive(event),
      clock: host.clock,
    });
  }

  /** The state as committed: the one that callers see. */
  get committed(): State {
    return this.#committed;
  }
  /** Status and epoch as decided: ahead of the committed ones by what is being written. */
  get decided(): Pick<ExecutionState, "status" | "epoch"> {
    return this.#decided;
  }

  /** Starts a new execution. */
  begin(reactions: Reactions<State>): void {
    this.#advance(undefined, undefined, reactions);
  }

  /** Makes a transition from outside: suspend, resume or cancel. */
  command(next: Transition, reactions: Reactions<State>): void {
    const row = toCommandRow(this.#host.newRow(), this.#decided.epoch + 1, next);
    this.#advance({ command: toCommand(row.id, next) }, row, reactions);
  }

  #onAttemptEnded(plan: AttemptPlan, result: AttemptResult): void {
    const { key } = plan;
    if (this.#released) return;
    // The result of an attempt that lost a race, or whose execution was cancelled, is dropped.
    if (!this.#walk.isWaitingFor(key)) return this.#host.progressed(this);
    const kept = this.#toKept(result);
    const row = toEntryRow(this.#host.newRow(), key, kept);
    this.#advance({ key, result: toEntryResult(row.id, kept) }, row, this.#onResult);
  }

  /** The loop of an execution. */
  #advance(input: JournalInput | undefined, row: JournalRow | undefined, reactions: Reactions<State>): void {
    // Decide, in memory. The next input may be decided before this change is durable.
    const change = this.#decide(input, row);
    this.#writing++;
    if (row) this.#unwritten.set(row.id, row);
    // Commit the row, its events and its transitions, in one transaction with the changes of other runs.
    this.#host.commit(this, change, {
      ...reactions,
      done: (commit) => {
        this.#writing--;
        if (commit) this.#committed = commit.states.at(-1) ?? this.#committed;
        reactions.done(commit); // answers the caller, and registers a new run
        if (!commit) return;
        // Publish the events to readers, and the states to callers that wait.
        this.#host.publish(this, change, commit);
        // Start the attempts that the change calls for.
        this.#schedule(change.starts);
        this.#launch();
        if (row) this.#unwritten.delete(row.id); // only now: an attempt that has just started need not read the file
        this.#host.progressed(this);
      },
    });
  }

  #decide(input: JournalInput | undefined, row: JournalRow | undefined): Change {
    const { events, starts, transition } = this.#walk.next(input);
    const transitions: Transition<Value>[] = [];
    if (input && "command" in input) transitions.push(input.command);
    if (transition) {
      transitions.push(transition);
      this.#walk.confirmTransition(); // no other process decides about this execution
    }
    const { epoch } = this.#decided;
    this.#seq += events.length;
    if (row) this.#bytes += row.bytes ?? Buffer.byteLength(row.body ?? "");
    for (const { to } of transitions) {
      this.#decided = { status: to, epoch: this.#decided.epoch + 1 };
      if (to !== "running") this.#seq++; // its event
    }
    return { row, at: row?.at ?? this.execution.startAt, events, transitions, epoch, seq: this.#seq, starts };
  }

  /** The result; an error in its place when its value would make the execution larger than allowed. */
  #toKept(result: AttemptResult): AttemptResult {
    const { executionBytes } = this.#host;
    const text = "value" in result ? result.value : "suspended" in result ? result.suspended.data : undefined;
    if (text === undefined || this.#bytes + Buffer.byteLength(text) <= executionBytes) return result;
    const message = `The values of the execution take more than ${executionBytes} bytes (limits.executionBytes)`;
    return { at: result.at, error: { message, shown: true } };
  }

  readonly #onResult: Reactions<State> = {
    done: (commit) => {
      if (!commit) this.#host.failed(this, new Error("Another process changed the execution"));
    },
    fail: (error) => this.#host.failed(this, error),
    stalled: (cause) => {
      this.#host.stalled(this, cause);
      return false;
    },
  };

  /**
   * Walks over the rows of a journal. Attempts that were in flight at its end are started again. Returns the
   * first mismatch: a row that this code does not lead to, for example because it has fewer retries than the code that
   * wrote it, or another status at the end.
   */
  async replay(pages: AsyncIterable<readonly JournalRow[]>): Promise<string | undefined> {
    let last = "the start";
    this.#schedule(this.#decide(undefined, undefined).starts);
    for await (const rows of pages) {
      for (const row of rows) {
        const input = fromRow(row);
        if ("key" in input && !this.#walk.isWaitingFor(input.key))
          return `the journal has a result for ${row.key} that this version does not produce`;
        this.#schedule(this.#decide(input, row).starts);
        last = row.key;
      }
    }
    const { status, epoch } = this.#committed;
    if (this.#decided.status === status && this.#decided.epoch === epoch) return undefined;
    return `the stored status after ${last} is not the one that this version produces`;
  }

  /** Allows attempts to start: the run has a slot. */
  admit(): void {
    this.#admitted = true;
    this.#launch();
  }

  #schedule(starts: readonly AttemptPlan[]): void {
    const { clock } = this.#host;
    for (const plan of starts) this.#planned.set(plan, plan.delay === 0 ? 0 : clock.monotonic() + plan.delay);
  }

  /** Starts the attempts that are due. */
  #launch(): void {
    const { clock } = this.#host;
    if (this.#timer) clock.clearTimeout(this.#timer);
    if (!this.#admitted || this.#stopped) return;
    if (this.#committed.status !== "running" || this.#decided.status !== "running") return;
    let nextDue = Infinity;
    for (const [plan, due] of this.#planned) {
      if (this.#stopped) return; // a start can fail the run
      if (due > 0 && due > clock.monotonic()) {
        nextDue = Math.min(due, nextDue);
        continue;
      }
      this.#planned.delete(plan);
      if (this.#walk.isWaitingFor(plan.key)) this.#walk.start(plan, (result) => this.#onAttemptEnded(plan, result));
    }
    if (this.#stopped || nextDue === Infinity) return;
    const ms = Math.min(Math.max(0, nextDue - clock.monotonic()), longestTimerMs);
    this.#timer = clock.setTimeout(() => this.#launch(), ms);
  }

  /** Starts no further attempts. */
  stop(): void {
    this.#stopped = true;
    this.#host.clock.clearTimeout(this.#timer);
  }

  /** Releases the run; attempts in flight are aborted. */
  release(reason: string): void {
    if (this.#released) return;
    this.#released = true;
    this.stop();
    this.#walk.release(reason);
  }

  /** The text of a row of this execution, whether it is written already or not. */
  readRow(row: number): JsonText | undefined {
    if (row === inputRow) return this.execution.input;
    const unwritten = this.#unwritten.get(row);
    return unwritten ? textOf(unwritten) : this.#host.readRow(this, row);
  }

  /** Reads a row for an attempt. If the store fails, the run fails and not the step: the step runs again at the next start. */
  #readForAttempt(row: number): JsonText | undefined {
    try {
      return this.readRow(row);
    } catch (error) {
      this.#host.failed(this, error);
      throw error;
    }
  }

  /** Whether the journal has everything: the execution has ended, or is suspended with nothing in flight. */
  get isIdle(): boolean {
    const { status, epoch } = this.#committed;
    if (this.#writing > 0 || status === "running" || this.#decided.epoch !== epoch) return false;
    return status !== "suspended" || this.inFlight === 0;
  }
  get bytes(): number {
    return this.#bytes;
  }
  get isReleased(): boolean {
    return this.#released;
  }
  get inFlight(): number {
    return this.#walk.inFlight;
  }
  get position(): Position {
    return this.#walk.position();
  }
  /** The step whose failure has ended the execution. */
  get failedStep(): FailedStep | undefined {
    const { last } = this.#committed;
    return last && "error" in last ? this.#walk.failedStep(last.error) : undefined;
  }
}
