import type { Clock } from "../../core/clock.ts";
import type { Walk } from "../attempts/walk.ts";
import type { CopiedEvent, EventBody } from "../events.ts";
import { toRowMismatch } from "../compare-steps.ts";
import type { ForkSource } from "../fork.ts";
import type { Execution, ExecutionState, ExecutionStatus, ParkedBranch, Transition } from "../execution.ts";
import type { Value } from "../walk/value.ts";
import type { AttemptPlan, AttemptResult, JournalInput } from "../walk/decision.ts";
import type { ComingEvent } from "../wait-order.ts";
import { Agenda, type NextTimes } from "./agenda.ts";
import type { FoundTakes } from "./find-takes.ts";
import {
  eventOf,
  fromRow,
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
  /** The events of the copied steps that have begun with a fork. */
  readonly copied?: readonly CopiedEvent[];
  /** The events of the decision. Those of the transitions come after them. */
  readonly events: readonly EventBody[];
  /** The transitions, in order: that of a command or of a wake, then the walk's own. */
  readonly transitions: readonly Transition<Value>[];
  /** True if the last transition is the walk's own. */
  readonly hasOwn: boolean;
  /** The epoch before these transitions. */
  readonly epoch: number;
  /** The number of the last event, those of the transitions included. */
  readonly seq: number;
}

export interface Copy {
  readonly row: JournalRow;
  readonly original: number;
  readonly copied: readonly CopiedEvent[];
}

/**
 * The backend of one run. Its calls are synchronous, and answers come back as inputs of the run, one at a time.
 *
 * P1. Changes are stored in the order of `append`. `onOutcome` is called in that order, and never inside of `append`.
 * P2. A change is published once, when it is durable and before `onOutcome`.
 * P3. The run knows nothing of slots. `start` may wait for one. If the execution is suspended before, or no branch waits for
 *     the attempt any more, the result is `notStarted`.
 * P4. `alarm` may be late, but is not lost: `time` is the answer. The backend calls `news` if there may be events.
 * P5. The walk's own transition may be *preceded*, if another process can make a command: everything else of the change is
 *     stored, and the command is an input that follows. A backend on which that can happen gives no input before the outcome.
 *     It confirms the transition to the walk when it is made; any other backend does so in `append`.
 * P6. `onOutcome` is not called for a change that another writer was before, or that can never be stored. After it, and after
 *     `release`, nothing is stored and no input comes.
 */
export interface RunPort<Request = unknown> {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** Max bytes of the input and all values of one execution. */
  readonly executionBytes: number;
  /** Reserves the number of the next journal row. */
  newRow(): number;
  /** Stores a change. `request` is what the backend has passed with the input. */
  append(change: Change, onOutcome: (outcome: Outcome) => void, request: Request | undefined): void;
  /** Runs an attempt once there is a slot, and answers with `end`. */
  start(plan: AttemptPlan): void;
  /** Sets the next times, which replace the last ones; undefined: none. `isIdle`: until then the execution needs no slot. */
  alarm(times: NextTimes | undefined, isIdle: boolean): void;
  /** Searches the events that branches may take. `onFound` is called later, once. */
  findEvents(onFound: (found: FoundTakes) => void): void;
  /** The journal has everything: the execution has ended, or is suspended with nothing in flight. */
  leave(): void;
}

/** The outcome of a change that is stored. */
export interface Outcome {
  /** The state that its transitions led to; undefined if it has none. */
  readonly state?: ExecutionState | undefined;
  /** A command was before the walk's own transition (P5). */
  readonly isPreceded?: true;
}

/** The facts about stored rows that are not in them. */
export interface ReplayFacts {
  /** The time by which durations are measured that began with a row; undefined if they follow the wall clock. */
  readonly nowOf?: (row: number) => number | undefined;
  /** True if the walk's own transition after a row (0: the start) was preceded by a command. That is the next row, or comes. */
  readonly wasPreceded?: (row: number) => boolean;
}

/** The answer for an attempt that has not begun. */
export const notStarted = "not started";

/**
 * The loop of one execution that this process drives.
 *
 * It owns the order of the changes of its execution, the attempts that wait for their start, and the times for which its
 * branches wait while it runs. It takes one input at a time and handles it to its end. It never waits, never writes by
 * itself, and never answers a caller.
 *
 * R1. Every change goes through `#advance`: decide → commit → publish → start.
 * R2. Nothing of a change is started before its commit. `decided` is ahead of `committed` by what is being written.
 * R3. Changes are appended in the order in which they were decided.
 * R4. An attempt starts only while the run is not stopped, the decided and the committed status are both `running`, and a
 *     branch waits for its entry.
 * R5. After its own transition was preceded, no wait ends and no attempt starts before the command has come.
 * R6. After `release` it changes nothing any more.
 */
export class Run<Request = unknown> {
  readonly execution: Execution;
  readonly #walk: Walk;
  readonly #port: RunPort<Request>;
  #committed: ExecutionState;
  #decided: { readonly status: ExecutionStatus; readonly epoch: number } = { status: "running", epoch: 0 };
  /** The walk itself has suspended the execution: its branches wait. */
  #isParked = false;
  /** The number of the last event decided. */
  #seq = 0;
  /** The bytes of the input and of all rows. */
  #bytes: number;
  /** The number of changes that are being written. */
  #writing = 0;
  #isPreceded = false;
  /** The number of attempts that were started and have not ended. */
  #inFlight = 0;
  readonly #agenda: Agenda;
  #hasAlarm = false;
  /** There may be events that no search has found. */
  #hasNews = false;
  #isSearching = false;
  /** The ids of the events that have ended waits of this execution. */
  #takenEvents: Set<string> | undefined;
  #isStopped = false;
  #isReleased = false;

  constructor(state: ExecutionState, walk: Walk, port: RunPort<Request>) {
    this.execution = state.execution;
    this.#committed = state;
    this.#walk = walk;
    this.#port = port;
    this.#agenda = new Agenda(port.clock);
    this.#bytes = Buffer.byteLength(state.execution.input);
  }

  /** Status and epoch as decided: ahead of the committed ones by what is being written. */
  get decided(): Pick<ExecutionState, "status" | "epoch"> {
    return this.#decided;
  }

  /** Starts a new execution. A fork starts with results of its original, which fit the code (`planFork`). */
  begin(source?: ForkSource, request?: Request): void {
    this.#advance(() => (source ? this.#decideFork(source) : this.#decideNow()), request);
  }

  /** Makes a transition from outside: suspend, resume, retry or cancel. */
  command(next: Transition, request?: Request): void {
    this.#isPreceded = false;
    const row = toCommandRow(this.#port.newRow(), this.#decided.epoch + 1, next);
    this.#advance(() => this.#decideNow({ command: toCommand(row.id, next) }, row), request);
  }

  /** The next time has come, or the wall clock has jumped. `request` is for the first change, if there is one. */
  time(request?: Request): void {
    if (this.#committed.status === "running") return this.#proceed(request);
    if (!this.#mayWake || !this.#endWaits(request)) this.#leaveIfIdle();
  }

  /** There may be events for branches of the execution. */
  news(request?: Request): void {
    this.#hasNews = true;
    this.time(request);
  }

  /** Ends the waits whose time has come; if a branch waits for an event, after a search for events. Returns whether any has come. */
  #endWaits(request: Request | undefined): boolean {
    const isDue = this.#agenda.dueWaits().some(({ key }) => this.#walk.isWaitingFor(key));
    if (this.#isSearching || !(isDue || this.#hasNews)) return isDue;
    this.#hasNews = false;
    if (!this.#walk.parkedBranches().some(({ event }) => event)) return this.#wakeDue(request);
    this.#isSearching = true;
    this.#port.findEvents((found) => this.#takeEvents(found, request));
    return true;
  }

  /** Ends waits by events, and those whose time came before, in the order of their times. */
  #takeEvents({ takes, isCut }: FoundTakes, request: Request | undefined): void {
    if (this.#isReleased) return;
    this.#isSearching = false;
    for (const take of takes) {
      const { key, event, receivedAt } = take;
      if (this.#mayWake && this.#walk.isWaitingFor(key) && this.#wakeDue(request, { key, at: receivedAt }))
        request = undefined;
      if (!this.#mayWake || !this.#walk.isWaitingFor(key) || this.hasTaken(event)) continue;
      this.#wake([{ ...take, at: this.#port.clock.now() }], request);
      request = undefined;
    }
    if (isCut) this.#hasNews = true;
    else if (this.#mayWake && this.#wakeDue(request)) return;
    this.time();
  }

  /** Ends the waits whose time has come, in the order of their times; with an event, those that count before it. */
  #wakeDue(request: Request | undefined, event?: ComingEvent): boolean {
    if (!this.#agenda.hasWaits) return false;
    const ended = this.#agenda.takeWaits(event).filter(({ key }) => this.#walk.isWaitingFor(key));
    if (ended.length === 0) return false;
    const at = this.#port.clock.now();
    const last = ended.length - 1;
    const wakes = ended.map(({ key }, index) => ({ key, at, isJoined: index < last || undefined }));
    this.#wake(wakes, request);
    return true;
  }

  #wake(wakes: readonly StoredWake[], request: Request | undefined): void {
    const rows = wakes.map((wake) => toWakeRow(this.#port.newRow(), wake));
    this.#advance(() => {
      const changes = rows.map((row) => this.#decideNow(fromRow(row), row));
      const last = changes.at(-1)!;
      const transitions = changes.flatMap((change) => change.transitions);
      return { ...last, joined: rows.slice(0, -1), transitions, epoch: changes[0]!.epoch };
    }, request);
  }

  /** Whether a wait may end by itself: not while the execution is suspended from outside, or has ended. */
  get #mayWake(): boolean {
    if (this.#isStopped || this.#isPreceded) return false;
    const { status, epoch } = this.#committed;
    // A resume that is not committed may lose against a cancel. Waits end after it.
    if (this.#decided.status === "running") return status === "running";
    return status === "suspended" && this.#isParked && this.#decided.epoch === epoch;
  }

  /** Whether an event has ended a wait of this execution. */
  hasTaken(event: string): boolean {
    return this.#takenEvents?.has(event) ?? false;
  }

  /** An attempt has ended, or was not started. */
  end(plan: AttemptPlan, result: AttemptResult | typeof notStarted): void {
    if (this.#isReleased) return;
    this.#inFlight--;
    if (result === notStarted) this.#agenda.addStart(plan);
    // The result of an attempt that lost a race, or whose execution was cancelled, is dropped.
    if (result === notStarted || !this.#walk.isWaitingFor(plan.key)) return this.#proceed();
    const kept = toBounded(result, { bytes: this.#bytes, executionBytes: this.#port.executionBytes });
    const row = toEntryRow(this.#port.newRow(), plan.key, kept);
    this.#advance(() => this.#decideNow({ key: plan.key, result: toEntryResult(row.id, kept) }, row));
  }

  /** The loop of an execution. */
  #advance(decide: () => Change, request?: Request): void {
    // Decide, in memory. The next input may be decided before this change is durable.
    const change = decide();
    this.#writing++;
    // Commit the row, its events and its transitions, in one transaction with the changes of other executions.
    const onOutcome = ({ state, isPreceded }: Outcome): void => {
      // Publish: before this call, the backend has told the readers and the callers that wait (P2).
      this.#writing--;
      this.#committed = state ?? this.#committed;
      if (isPreceded) this.#takeBack(change);
      // Start the attempts that the change calls for.
      this.#agenda.addStarts(change.starts, change.at);
      this.#proceed();
    };
    this.#port.append(change, onOutcome, request);
  }

  #decideNow(input?: JournalInput, row?: JournalRow): Change {
    return this.#decide(input, row, this.#port.clock.now());
  }

  /** `now` is the time by which durations are measured that begin; undefined if they follow the wall clock. */
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
    if (transition) transitions.push(transition);
    const { epoch } = this.#decided;
    this.#seq += events.length;
    if (row) this.#bytes += row.bytes ?? Buffer.byteLength(row.body ?? "");
    for (const { to } of transitions) {
      this.#decided = { status: to, epoch: this.#decided.epoch + 1 };
      if (to !== "running") this.#seq++; // its event
    }
    if (transitions.length > 0) this.#isParked = transition?.to === "suspended";
    const at = row?.at ?? this.execution.startAt;
    const times = this.#timesOf(transition);
    const hasOwn = transition !== undefined;
    return { row, at, events, transitions, hasOwn, epoch, seq: this.#seq, starts, parks, times };
  }

  /** The next times of an execution that is suspended now. */
  #timesOf(transition: Transition<Value> | undefined): NextTimes | undefined {
    return transition?.to === "suspended"
      ? this.#agenda.times(this.#port.clock.monotonic(), this.#isWaitingFor)
      : undefined;
  }

  /** A command was before the walk's own transition. */
  #takeBack({ transitions, epoch }: Change): void {
    const others = transitions.slice(0, -1);
    this.#isPreceded = true;
    this.#isParked = false;
    this.#decided = { status: others.at(-1)?.to ?? "running", epoch: epoch + others.length };
    if (transitions.at(-1)!.to !== "running") this.#seq--; // its event
  }

  /** Decides the start of a fork: the walk takes in the copied results, in one change. */
  #decideFork({ rows, copied }: ForkSource): Change {
    const changes = [this.#decideNow()];
    const copies: Copy[] = [];
    for (const { row: original, key, copied: events } of rows) {
      const row = { ...original, id: this.#port.newRow(), key };
      changes.push(this.#decideNow(fromRow(row), row));
      copies.push({ row, original: original.id, copied: events });
    }
    const events = changes.flatMap((change) => change.events);
    const starts = changes.flatMap((change) => change.starts);
    const parks = changes.flatMap((change) => change.parks);
    const { transitions, hasOwn, times } = changes.at(-1)!; // a fork may end at once: its last steps have no code
    return { ...changes[0]!, events, transitions, hasOwn, times, starts, parks, seq: this.#seq, copies, copied };
  }

  /**
   * Walks over the rows of a journal. Attempts that were in flight at its end are started again. Returns the
   * first mismatch: a row that this code does not lead to, for example because a sub-workflow has lost its input
   * schema, or another status at the end.
   */
  async replay(
    pages: AsyncIterable<readonly JournalRow[]>,
    { nowOf = () => undefined, wasPreceded = () => false }: ReplayFacts = {},
  ): Promise<string | undefined> {
    let last = "the start";
    const take = (input?: JournalInput, row?: JournalRow): void => {
      const now = row && nowOf(row.id);
      if (input && "command" in input) this.#isPreceded = false;
      const change = this.#decide(input, row, now);
      const { starts, hasOwn } = change;
      if (hasOwn && wasPreceded(row?.id ?? 0)) this.#takeBack(change);
      else if (hasOwn) this.#walk.confirmTransition();
      if (starts.length > 0) this.#agenda.addStarts(starts, now ?? this.#port.clock.now());
    };
    take();
    for await (const rows of pages) {
      for (const row of rows) {
        const input = fromRow(row);
        if (this.#isPreceded && !("command" in input)) return toStatusMismatch(last);
        const key = "key" in input ? input.key : "wake" in input ? input.wake.key : undefined;
        if (key !== undefined && !this.#walk.isWaitingFor(key)) return toRowMismatch(row.key);
        take(input, row);
        last = row.key;
      }
    }
    const { status, epoch } = this.#committed;
    if (this.#decided.status === status && this.#decided.epoch === epoch) return undefined;
    return toStatusMismatch(last);
  }

  readonly #isWaitingFor = (key: string): boolean => this.#walk.isWaitingFor(key);

  /** Ends the waits and starts the attempts whose time has come, and sets the next time; or leaves. */
  #proceed(request?: Request): void {
    if (this.#isReleased) return;
    if (this.#committed.status !== "running" || this.#decided.status !== "running") {
      this.#setAlarm({});
      return this.#leaveIfIdle();
    }
    if (this.#isStopped || this.#isPreceded) return this.#setAlarm({});
    // Waits that end continue when that is committed.
    if ((this.#hasNews || this.#agenda.hasWaits) && this.#endWaits(request)) return;
    const now = this.#port.clock.monotonic();
    for (const plan of this.#agenda.takeStarts(now)) {
      if (!this.#walk.isWaitingFor(plan.key)) continue;
      this.#inFlight++;
      this.#port.start(plan);
      if (this.#isStopped) return; // a start can fail the run
    }
    this.#setAlarm(this.#agenda.isEmpty ? {} : this.#agenda.times(now, this.#isWaitingFor));
  }

  #leaveIfIdle(): void {
    if (!this.#isReleased && this.#isIdle) this.#port.leave();
  }

  #setAlarm(times: NextTimes): void {
    const hasTimes = times.elapsed !== undefined || times.date !== undefined;
    if (!hasTimes && !this.#hasAlarm) return;
    this.#hasAlarm = hasTimes;
    this.#port.alarm(hasTimes ? times : undefined, this.#inFlight === 0 && this.#writing === 0);
  }

  /** Starts no further attempts. */
  stop(): void {
    this.#isStopped = true;
    this.#setAlarm({});
  }

  /** Makes no further changes. */
  release(): void {
    this.#isReleased = true;
    this.stop();
  }

  /** Whether the journal has everything: the execution has ended, or is suspended with nothing in flight. */
  get #isIdle(): boolean {
    const { status } = this.#committed;
    if (status === "running" || this.isAhead || this.#isSearching) return false;
    return status !== "suspended" || this.#inFlight === 0;
  }
  /** Whether changes were decided that are not committed, or never will be. */
  get isAhead(): boolean {
    return this.#writing > 0 || this.#decided.epoch !== this.#committed.epoch;
  }
  /** Whether an attempt may start now. */
  get mayStart(): boolean {
    return (
      !this.#isStopped &&
      !this.#isPreceded &&
      this.#committed.status === "running" &&
      this.#decided.status === "running"
    );
  }
  /** Whether an attempt or a branch waits for a time. */
  get hasTimes(): boolean {
    return this.#agenda.hasTimes;
  }
  get bytes(): number {
    return this.#bytes;
  }
  get isReleased(): boolean {
    return this.#isReleased;
  }
}

const toStatusMismatch = (last: string): string =>
  `the stored status after ${last} is not the one that this version produces`;
