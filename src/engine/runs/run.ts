import type { Walk } from "../attempts/walk.ts";
import { toRowMismatch, toStatusMismatch } from "../compare-steps.ts";
import type { ForkSource } from "../fork.ts";
import type { Execution, ExecutionState, ExecutionStatus, Transition } from "../execution.ts";
import type { Value } from "../walk/value.ts";
import type { AttemptPlan, AttemptResult, JournalInput } from "../walk/decision.ts";
import { Agenda, type NextTimes } from "./agenda.ts";
import { fromRow, toCommandEntry, toEntry, toWakeRow, type JournalRow, type StoredWake } from "./journal-row.ts";
import {
  notStarted,
  toWhole,
  type Change,
  type Copy,
  type Outcome,
  type ReplayFacts,
  type RunPort,
} from "./run-port.ts";
import { RunWaits } from "./run-waits.ts";
import { toBounded } from "../rules/value-bound.ts";

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
  readonly #waits: RunWaits<Request>;
  #hasAlarm = false;
  #isStopped = false;
  #isReleased = false;

  constructor(state: ExecutionState, walk: Walk, port: RunPort<Request>) {
    this.execution = state.execution;
    this.#committed = state;
    this.#walk = walk;
    this.#port = port;
    this.#agenda = new Agenda(port.clock);
    this.#waits = new RunWaits({ walk, port, agenda: this.#agenda, run: this });
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
    const { row, input } = toCommandEntry(this.#port.newRow(), this.#decided.epoch + 1, next);
    this.#advance(() => this.#decideNow(input, row), request);
  }

  /** The next time has come, or the wall clock has jumped. `request` is for the first change, if there is one. */
  time(request?: Request): void {
    if (this.#committed.status === "running") return this.#proceed(request);
    if (!this.mayWake || !this.#waits.end(request)) this.#leaveIfIdle();
  }

  /** There may be events for branches of the execution. */
  news(request?: Request): void {
    this.#waits.news();
    this.time(request);
  }

  /** Waits end at the same moment. */
  wake(wakes: readonly StoredWake[], request: Request | undefined): void {
    const rows = wakes.map((wake) => toWakeRow(this.#port.newRow(), wake));
    this.#advance(() => {
      const changes = rows.map((row) => this.#decideNow(fromRow(row), row));
      return { ...changes.at(-1)!, ...toWhole(changes), joined: rows.slice(0, -1), epoch: changes[0]!.epoch };
    }, request);
  }

  /** Whether a wait may end by itself: not while the execution is suspended from outside, or has ended. */
  get mayWake(): boolean {
    if (this.#isStopped || this.#isPreceded) return false;
    const { status, epoch } = this.#committed;
    // A resume that is not committed may lose against a cancel. Waits end after it.
    if (this.#decided.status === "running") return status === "running";
    return status === "suspended" && this.#isParked && this.#decided.epoch === epoch;
  }

  /** Whether an event has ended a wait of this execution. */
  hasTaken(event: string): boolean {
    return this.#waits.hasTaken(event);
  }

  /** An attempt has ended, or was not started. */
  end(plan: AttemptPlan, result: AttemptResult | typeof notStarted): void {
    if (this.#isReleased) return;
    this.#inFlight--;
    if (result === notStarted) this.#agenda.addStart(plan);
    // The result of an attempt that has lost a race is dropped.
    if (result === notStarted || !this.#walk.isWaitingFor(plan.key)) return this.#proceed();
    const kept = toBounded(result, { bytes: this.#bytes, executionBytes: this.#port.executionBytes });
    const { row, input } = toEntry(this.#port.newRow(), plan.key, kept);
    this.#advance(() => this.#decideNow(input, row));
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
      this.#waits.ended(row!);
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
    const times =
      transition?.to === "suspended" ? this.#agenda.times(this.#port.clock.monotonic(), this.#walk) : undefined;
    const hasOwn = transition !== undefined;
    return { row, at, events, transitions, hasOwn, epoch, seq: this.#seq, starts, parks, times };
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
    const { row, at, epoch } = changes[0]!;
    return { ...changes.at(-1)!, ...toWhole(changes), row, at, epoch, copies, copied };
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

  /** Ends the waits and starts the attempts whose time has come, and sets the next time; or leaves. */
  #proceed(request?: Request): void {
    if (this.#isReleased) return;
    if (!this.mayStart) {
      this.#setAlarm(undefined);
      return this.#leaveIfIdle();
    }
    // Waits that end continue when that is committed.
    if (this.#waits.mayEnd && this.#waits.end(request)) return;
    const now = this.#port.clock.monotonic();
    for (const plan of this.#agenda.takeStarts(now)) {
      if (!this.#walk.isWaitingFor(plan.key)) continue;
      this.#inFlight++;
      this.#port.start(plan);
      if (this.#isStopped) return; // a start can fail the run
    }
    this.#setAlarm(this.#agenda.times(now, this.#walk));
  }

  /** Leaves if the journal has everything: the execution has ended, or is suspended with nothing in flight. */
  #leaveIfIdle(): void {
    const { status } = this.#committed;
    if (this.#isReleased || status === "running" || this.isAhead || this.#waits.isSearching) return;
    if (status !== "suspended" || this.#inFlight === 0) this.#port.leave();
  }

  #setAlarm(times: NextTimes | undefined): void {
    if (!times && !this.#hasAlarm) return;
    this.#hasAlarm = times !== undefined;
    this.#port.alarm(times, this.#inFlight === 0 && this.#writing === 0);
  }

  /** Starts no further attempts. */
  stop(): void {
    this.#isStopped = true;
    this.#setAlarm(undefined);
  }
  /** Makes no further changes. */
  release(): void {
    this.#isReleased = true;
    this.stop();
  }

  /** Whether changes were decided that are not committed, or never will be. */
  get isAhead(): boolean {
    return this.#writing > 0 || this.#decided.epoch !== this.#committed.epoch;
  }
  /** Whether an attempt may start now. */
  get mayStart(): boolean {
    if (this.#isStopped || this.#isPreceded) return false;
    return this.#committed.status === "running" && this.#decided.status === "running";
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
