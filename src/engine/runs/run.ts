import type { Clock, ClockTimer } from "../../core/clock.ts";
import { longestTimerMs } from "../../core/duration.ts";
import type { JsonText } from "../../core/json.ts";
import type { AcceptedEvent, CreateWalk, Walk } from "../attempts/walk.ts";
import type { EventBody, LiveEvent } from "../events.ts";
import type { AttemptRecords } from "../contract/records.ts";
import { toRowMismatch } from "../compare-steps.ts";
import type { CopiedRow } from "../fork.ts";
import type {
  EventFilter,
  Execution,
  ExecutionState,
  ExecutionStatus,
  ParkedBranch,
  Position,
  Transition,
} from "../execution.ts";
import type { FailedStep } from "../execution-log.ts";
import { inputRow, type Value } from "../walk/value.ts";
import type { AttemptPlan, AttemptResult, JournalInput } from "../walk/decision.ts";
import type { ComingEvent } from "../wait-order.ts";
import { Agenda, type NextTimes } from "./agenda.ts";
import {
  eventOf,
  fromRow,
  textOf,
  toCommand,
  toCommandRow,
  toEntryResult,
  toEntryRow,
  toWakeRow,
  type JournalRow,
  type StoredWake,
} from "./journal-row.ts";
import { toBounded } from "../rules/value-bound.ts";

/** The result of one input: the unit of a commit. */
export interface Change {
  readonly at: number;
  /** The attempts to start, and the waits that begin. */
  readonly starts: readonly AttemptPlan[];
  readonly parks: readonly ParkedBranch<Value>[];
  /** The next times of an execution that is suspended now. */
  readonly times?: NextTimes | undefined;
  /** The journal row of the input; undefined for the start of an execution, which has no row. */
  readonly row: JournalRow | undefined;
  /** The rows before it, of waits that end at the same moment. */
  readonly joined?: readonly JournalRow[];
  /** The rows that a fork begins with, and the rows of the original that they are copied from. */
  readonly copies?: readonly Copy[];
  /** The events of the decision. Those of the transitions come after them. */
  readonly events: readonly EventBody[];
  /** The transitions, in order: that of a command, then that of the decision. */
  readonly transitions: readonly Transition<Value>[];
  /** The epoch before these transitions. */
  readonly epoch: number;
  /** The number of the last event, those of the transitions included. */
  readonly seq: number;
}

interface Copy {
  readonly row: JournalRow;
  readonly original: number;
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
  /** Opens the results that the attempt with this key records. */
  openRecords(run: Run<State>, key: string): Promise<AttemptRecords>;
  /** Writes a change in one transaction, and calls `done` in the order of the commits. */
  commit(run: Run<State>, change: Change, reactions: Reactions<State>): void;
  publish(run: Run<State>, change: Change, commit: Commit<State>): void;
  publishLive(event: LiveEvent): void;
  /** A result waits until the store can be written again. */
  stalled(run: Run<State>, cause: unknown): void;
  /** A result of the run can never be written. */
  failed(run: Run<State>, error: unknown): void;
  /** Another transition of an execution that was suspended is committed: the run does not know it. */
  outrun(run: Run<State>): void;
  /** A change was committed, or an attempt has ended: the run may be idle now. */
  progressed(run: Run<State>): void;
  /** Nothing happens in a running execution until some times, for these milliseconds: it needs no slot until then. */
  rest(run: Run<State>, ms: number, times: NextTimes): void;
  /**
   * Ends the waits whose time has come and those that have an event, in the order of their times. Resolves to whether there
   * were any. Undefined: no time has come, or there is no event.
   */
  endInOrder(run: Run<State>): Promise<boolean> | undefined;
  /** A run that rests needs a slot again. */
  wakeUp(run: Run<State>): void;
  /** All code of the run waits for other executions: it needs no slot until then. */
  lend(run: Run<State>): void;
  /** Resolves when a run that has lent its slot has one again. */
  regain(run: Run<State>): Promise<void>;
}

/**
 * One execution that this process drives.
 *
 * It owns the order of the changes of its execution, the attempts that wait for their start, and the times for which its
 * branches wait while it runs. Its life: created → replayed, if the execution is not new → admitted to a slot, and at rest
 * while it only waits for a time → idle → released (`release`).
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
  readonly #agenda: Agenda;
  /** The ids of the events that have ended waits of this execution. */
  #takenEvents: Set<string> | undefined;
  #timer: ClockTimer | undefined;
  #admitted = false;
  #resting = false;
  /** It has rested, and waits for a slot. */
  #isWaking = false;
  #stopped = false;
  #released = false;

  constructor(state: State, createWalk: CreateWalk, host: RunHost<State>) {
    this.execution = state.execution;
    this.#committed = state;
    this.#host = host;
    this.#agenda = new Agenda(host.clock);
    this.#bytes = Buffer.byteLength(state.execution.input);
    this.#walk = createWalk(state.execution, {
      readRow: (row) => this.#readForAttempt(row),
      publishLive: (event) => host.publishLive(event),
      clock: host.clock,
      slot: { lend: () => host.lend(this), regain: () => host.regain(this) },
      openRecords: (key) => host.openRecords(this, key),
    });
  }

  /** A child is admitted before executions that nobody inside waits for. */
  get isFirst(): boolean {
    return this.execution.parent !== undefined;
  }

  /** The state as committed: the one that callers see. */
  get committed(): State {
    return this.#committed;
  }
  /** Status and epoch as decided: ahead of the committed ones by what is being written. */
  get decided(): Pick<ExecutionState, "status" | "epoch"> {
    return this.#decided;
  }

  /** Starts a new execution. A fork starts with results of its original, which fit the code (`planFork`). */
  begin(reactions: Reactions<State>, copied: readonly CopiedRow[] = []): void {
    this.#advance(() => (copied.length > 0 ? this.#decideFork(copied) : this.#decideStart()), reactions);
  }

  /** Makes a transition from outside: suspend, resume, retry or cancel. */
  command(next: Transition, reactions: Reactions<State>): void {
    const row = toCommandRow(this.#host.newRow(), this.#decided.epoch + 1, next);
    this.#advance(() => this.#decide({ command: toCommand(row.id, next) }, row, row.at), reactions);
  }

  /**
   * Ends the waits whose time has come, in the order of their times; with an event, those that count before it. Returns
   * whether there were any; `done` follows the commit.
   */
  wakeDue(done: () => void = () => {}, event?: ComingEvent): boolean {
    if (!this.#agenda.hasWaits) return false;
    const ended = this.#agenda.takeWaits(event).filter(({ key }) => this.#walk.isWaitingFor(key));
    if (ended.length === 0) return false;
    const at = this.#host.clock.now();
    const last = ended.length - 1;
    const wakes = ended.map(({ key }, index) => ({ key: key, at, isJoined: index < last || undefined }));
    this.#wake(wakes, done);
    return true;
  }

  /** Ends a wait by an event. Returns false when the branch waits no more, or the execution has had the event. */
  wakeByEvent(
    { key }: ParkedBranch<Value>,
    event: string,
    value: JsonText | undefined,
    done: () => void = () => {},
  ): boolean {
    if (!this.mayWake || !this.#walk.isWaitingFor(key) || this.#takenEvents?.has(event)) return false;
    this.#wake([{ key: key, at: this.#host.clock.now(), value, event }], done);
    return true;
  }

  #wake(wakes: readonly StoredWake[], done: () => void): void {
    const wasSuspended = this.#committed.status === "suspended";
    const rows = wakes.map((wake) => toWakeRow(this.#host.newRow(), wake));
    this.#advance(
      () => {
        const changes = rows.map((row) => this.#decide(fromRow(row), row, row.at));
        const last = changes.at(-1)!;
        const transitions = changes.flatMap((change) => change.transitions);
        return { ...last, joined: rows.slice(0, -1), transitions, epoch: changes[0]!.epoch };
      },
      {
        ...this.#onResult,
        done: (commit) => {
          // While the run was loaded, a request has made another transition: without it, and first.
          if (!commit && wasSuspended) return this.#host.outrun(this);
          this.#onResult.done(commit);
          if (commit) done();
        },
      },
    );
  }

  /** Checks the data of an event for a branch of this run. */
  acceptEvent(filter: EventFilter, data: JsonText | undefined): Promise<AcceptedEvent> {
    return this.#walk.acceptEvent(filter, data);
  }
  /** Whether a wait may end by itself: not while the execution is suspended from outside, or has ended. */
  get mayWake(): boolean {
    if (this.#released || this.#stopped) return false;
    const { status, last } = this.#committed;
    // A resume that is not committed may lose against a cancel. Waits end after it: `#launch`, and the mailbox, look again.
    if (this.#decided.status === "running") return status === "running";
    const isOwn = last?.to === "suspended" && last.pending.length > 0;
    return status === "suspended" && isOwn && this.#decided.epoch === this.#committed.epoch;
  }
  /** Whether an event has ended a wait of this execution. */
  hasTaken(event: string): boolean {
    return this.#takenEvents?.has(event) ?? false;
  }
  /** The branches that wait for a person, a time or an event. */
  parkedBranches(): readonly ParkedBranch<Value>[] {
    return this.#walk.parkedBranches();
  }

  /** Whether a branch waits for something with this key. */
  isWaitingFor(key: string): boolean {
    return this.#walk.isWaitingFor(key);
  }
  /** Whether the time of a wait has come. */
  get hasDueWaits(): boolean {
    return this.#agenda.dueWaits().some(({ key }) => this.#walk.isWaitingFor(key));
  }

  #onAttemptEnded({ key }: AttemptPlan, result: AttemptResult): void {
    if (this.#released) return;
    // The result of an attempt that lost a race, or whose execution was cancelled, is dropped.
    if (!this.#walk.isWaitingFor(key)) return this.#host.progressed(this);
    const kept = toBounded(result, { bytes: this.#bytes, executionBytes: this.#host.executionBytes });
    const row = toEntryRow(this.#host.newRow(), key, kept);
    this.#advance(() => this.#decide({ key, result: toEntryResult(row.id, kept) }, row, row.at), this.#onResult);
  }

  /** The loop of an execution. */
  #advance(decide: () => Change, reactions: Reactions<State>): void {
    // Decide, in memory. The next input may be decided before this change is durable.
    const change = decide();
    const { row } = change;
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
        this.#agenda.addStarts(change.starts, change.at);
        this.#launch();
        if (row) this.#unwritten.delete(row.id); // only now: an attempt that has just started need not read the file
        this.#host.progressed(this);
      },
    });
  }

  /** `now` is the time by which durations are measured; undefined if they follow the wall clock. */
  #decide(input: JournalInput | undefined, row: JournalRow | undefined, now: number | undefined): Change {
    const { events, starts, parks, transition } = this.#walk.next(input);
    this.#agenda.addWaits(parks, now);
    const transitions: Transition<Value>[] = [];
    if (input && "command" in input) transitions.push(input.command);
    if (input && "wake" in input) {
      const event = eventOf(row!);
      if (event !== undefined) (this.#takenEvents ??= new Set()).add(event);
      if (this.#decided.status === "suspended") transitions.push({ at: input.wake.at, to: "running", isWake: true });
    }
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
    const at = row?.at ?? this.execution.startAt;
    return { row, at, events, transitions, epoch, seq: this.#seq, starts, parks, times: this.#timesOf(transition) };
  }

  /** The next times of an execution that is suspended now. */
  #timesOf(transition: Transition<Value> | undefined): NextTimes | undefined {
    return transition?.to === "suspended"
      ? this.#agenda.times(this.#host.clock.monotonic(), this.#isWaitingFor)
      : undefined;
  }

  #decideStart(): Change {
    return this.#decide(undefined, undefined, this.execution.startAt);
  }

  /** Decides the start of a fork: the walk takes in the copied results, in one change. */
  #decideFork(copied: readonly CopiedRow[]): Change {
    const changes = [this.#decideStart()];
    const copies: Copy[] = [];
    for (const { row: original, key } of copied) {
      const row = { ...original, id: this.#host.newRow(), key };
      changes.push(this.#decide(fromRow(row), row, this.execution.startAt));
      copies.push({ row, original: original.id });
    }
    const events = changes.flatMap((change) => change.events);
    const starts = changes.flatMap((change) => change.starts);
    const parks = changes.flatMap((change) => change.parks);
    const { transitions, times } = changes.at(-1)!; // a fork may end at once: its last steps have no code
    return { ...changes[0]!, events, transitions, times, starts, parks, seq: this.#seq, copies };
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
   * first mismatch: a row that this code does not lead to, for example because a sub-workflow has lost its input
   * schema, or another status at the end. `nowOf` returns the time by which durations are measured that began with
   * a row; undefined if they follow the wall clock.
   */
  async replay(
    pages: AsyncIterable<readonly JournalRow[]>,
    nowOf: (row: number) => number | undefined = () => undefined,
  ): Promise<string | undefined> {
    let last = "the start";
    const take = (input?: JournalInput, row?: JournalRow): void => {
      const now = row && nowOf(row.id);
      const { starts } = this.#decide(input, row, now);
      if (starts.length > 0) this.#agenda.addStarts(starts, now ?? this.#host.clock.now());
    };
    take();
    for await (const rows of pages) {
      for (const row of rows) {
        const input = fromRow(row);
        const key = "key" in input ? input.key : "wake" in input ? input.wake.key : undefined;
        if (key !== undefined && !this.#walk.isWaitingFor(key)) return toRowMismatch(row.key);
        take(input, row);
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
    this.#resting = this.#isWaking = false;
    this.#launch();
  }

  /** The wall clock has jumped, or the time of a stored timer has come. */
  checkTimes(): void {
    if (this.#committed.status === "running") this.#launch();
    else if (this.mayWake) this.wakeDue();
  }

  readonly #isWaitingFor = (key: string): boolean => this.#walk.isWaitingFor(key);

  /** Ends the waits and starts the attempts whose time has come. */
  #launch(): void {
    const { clock } = this.#host;
    if (this.#timer) clock.clearTimeout(this.#timer);
    if (this.#stopped || this.#committed.status !== "running" || this.#decided.status !== "running") return;
    const ending = this.#host.endInOrder(this);
    if (ending) return void ending.then(() => this.#launch());
    if (this.wakeDue()) return; // it continues when that is committed
    const now = clock.monotonic();
    if (this.#resting && this.#agenda.hasStarts(now)) {
      if (this.#isWaking || this.#writing > 0) return;
      this.#isWaking = true;
      return this.#host.wakeUp(this);
    }
    if (this.#admitted)
      for (const plan of this.#agenda.takeStarts(now)) {
        if (this.#walk.isWaitingFor(plan.key)) this.#walk.start(plan, (result) => this.#onAttemptEnded(plan, result));
        if (this.#stopped) return; // a start can fail the run
      }
    if (this.#agenda.isEmpty) return;
    const ms = this.#agenda.next(now, this.#isWaitingFor);
    if (ms === undefined) return;
    this.#timer = clock.setTimeout(() => this.#launch(), Math.min(ms, longestTimerMs));
    if (!(this.#admitted || this.#resting) || this.inFlight > 0 || this.#writing > 0) return;
    this.#admitted = false;
    this.#resting = true;
    this.#host.rest(this, ms, this.#agenda.times(now, this.#isWaitingFor));
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
  /** Whether changes were decided that are not committed, or never will be. */
  get isAhead(): boolean {
    return this.#writing > 0 || this.#decided.epoch !== this.#committed.epoch;
  }
  /** Whether a further change is being written, or the execution is no longer running. */
  get isChanging(): boolean {
    return this.#writing > 0 || this.#decided.status !== "running";
  }
  /** Whether the execution runs, and only waits for a time. */
  get isResting(): boolean {
    return this.#resting && !this.#isWaking && this.#writing === 0;
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
