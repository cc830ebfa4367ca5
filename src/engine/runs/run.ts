import type { Walk } from "../attempts/walk.ts";
import type { ForkSource } from "../fork.ts";
import type { Execution, ExecutionState, Transition } from "../execution.ts";
import type { Value } from "../walk/value.ts";
import type { AttemptPlan, AttemptResult, JournalInput } from "../walk/decision.ts";
import {
  fromRow,
  toBounded,
  toCommandEntry,
  toEntry,
  toWakeRow,
  type JournalRow,
  type StoredWake,
} from "./journal-row.ts";
import { notStarted, toWhole, type Change, type NextTimes, type ReplayFacts, type RunPort } from "./run-port.ts";
import { RunWaits } from "./run-waits.ts";
import { toRowMismatch, toStatusMismatch } from "../compare-steps.ts";

/** Status and epoch of an execution. */
type Progress = Pick<ExecutionState, "status" | "epoch">;

/**
 * The loop of one execution that this process drives.
 *
 * It owns the order of changes, the attempts before their start, and the times for which branches wait. It takes one input at
 * a time and handles it to its end. It never waits, never writes by itself, and never answers a caller.
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
  /** Status and epoch as decided: ahead of the committed ones by the changes that are being written. Set only by the run. */
  decided: Progress = { status: "running", epoch: 0 };
  /** The walk itself has suspended the execution: its branches wait. */
  #isParked = false;
  /** The number of the last event decided. */
  #seq = 0;
  /** The bytes of the input and all rows. */
  #bytes: number;
  /** The number of changes that are being written. */
  #writing = 0;
  #isPreceded = false;
  /** The number of attempts that were started and have not ended. */
  #unended = 0;
  /** The attempts to start, in order. */
  #starts: AttemptPlan[] = [];
  /** Undefined until the first retry delay, wait or event: most executions have none. */
  #waits: RunWaits<Request> | undefined;
  #isStopped = false;
  #isReleased = false;

  constructor(state: ExecutionState, walk: Walk, port: RunPort<Request>) {
    this.execution = state.execution;
    this.#committed = state;
    this.#walk = walk;
    this.#port = port;
    this.#bytes = Buffer.byteLength(state.execution.input);
  }

  /** Starts a new execution. A fork starts with results of its original, which fit the code (`planFork`). */
  begin(source?: ForkSource, request?: Request): void {
    this.#advance(() => (source ? this.#decideFork(source) : this.#decide()), request);
  }

  /** Makes the transition of a command: suspend, resume, retry or cancel. */
  command(next: Transition, request?: Request): void {
    this.#isPreceded = false;
    const { row, input } = toCommandEntry(this.#port.newRow(), this.decided.epoch + 1, next);
    this.#advance(() => this.#decide(input, row), request);
  }

  /** The next time has come, or the wall clock has jumped. `request` is for the first change, if there is one. */
  time(request?: Request): void {
    if (this.#committed.status === "running") return this.#proceed(request);
    if (!this.mayWake || !this.#waits?.end(request)) this.#leaveIfIdle();
  }

  /** There may be events for branches of the execution. */
  news(request?: Request): void {
    this.#openWaits().news();
    this.time(request);
  }
  #openWaits(): RunWaits<Request> {
    return (this.#waits ??= new RunWaits({ walk: this.#walk, port: this.#port, run: this }));
  }

  /** Waits end at the same moment. */
  wake(wakes: readonly StoredWake[], request: Request | undefined): void {
    const rows = wakes.map((wake) => toWakeRow(this.#port.newRow(), wake));
    this.#advance(() => {
      const changes = rows.map((row) => this.#decide(fromRow(row), row));
      return { ...toWhole(changes), joined: rows.slice(0, -1) };
    }, request);
  }

  /** True if a time or an event may end a wait: not after the end, or after a suspension by a command. */
  get mayWake(): boolean {
    if (this.#isStopped || this.#isPreceded) return false;
    const { status, epoch } = this.#committed;
    // A resume that is not committed may lose against a cancel. Waits end after it.
    if (this.decided.status === "running") return status === "running";
    return status === "suspended" && this.#isParked && this.decided.epoch === epoch;
  }

  /** True if an event ended a wait of this execution. */
  hasTaken(event: string): boolean {
    return this.#waits?.hasTaken(event) ?? false;
  }

  /** An attempt ended, or was not started. */
  end(plan: AttemptPlan, result: AttemptResult | typeof notStarted): void {
    if (this.#isReleased) return;
    this.#unended--;
    if (result === notStarted) this.#starts.push(plan);
    // The result of an attempt that has lost a race is dropped.
    if (result === notStarted || !this.#walk.isWaitingFor(plan.key)) return this.#proceed();
    const kept = toBounded(result, { bytes: this.#bytes, executionBytes: this.#port.executionBytes });
    const { row, input } = toEntry(this.#port.newRow(), plan.key, kept);
    this.#advance(() => this.#decide(input, row));
  }

  /** The loop of an execution. */
  #advance(decide: () => Change, request?: Request): void {
    // Decide, in memory. The next input may be decided before this change is durable.
    const change = decide();
    this.#writing++;
    // Commit the row, its events and its transitions, in one transaction with the changes of other executions.
    this.#port.append(change, request, ({ state, isPreceded }) => {
      // Publish: before this call, the backend has told readers and waiting callers (P2).
      this.#writing--;
      this.#committed = state ?? this.#committed;
      if (isPreceded) this.#takeBack(change);
      // Start the attempts that the change calls for.
      this.#addStarts(change.starts, change.at);
      this.#proceed();
    });
  }

  #decide(input?: JournalInput, row?: JournalRow, facts?: ReplayFacts): Change {
    const { events, starts, parks, transition } = this.#walk.next(input);
    if (parks.length > 0)
      this.#openWaits().agenda.addWaits(parks, facts ? row && facts.nowOf?.(row.id) : this.#port.clock.now());
    const transitions: Transition<Value>[] = [];
    if (input && "command" in input) transitions.push(input.command);
    if (input && "wake" in input) {
      this.#openWaits().ended(row);
      if (this.decided.status === "suspended") transitions.push({ at: input.wake.at, to: "running", isWake: true });
    }
    if (transition) transitions.push(transition);
    const { epoch } = this.decided;
    this.#seq += events.length;
    if (row) this.#bytes += row.bytes ?? Buffer.byteLength(row.body ?? "");
    for (const { to } of transitions) {
      this.decided = { status: to, epoch: this.decided.epoch + 1 };
      if (to !== "running") this.#seq++; // its event
    }
    if (transitions.length > 0) this.#isParked = transition?.to === "suspended";
    const at = row?.at ?? this.execution.startAt;
    const times =
      transition?.to === "suspended" ? this.#waits?.agenda.times(this.#port.clock.monotonic(), this.#walk) : undefined;
    const hasOwn = transition !== undefined;
    return { row, at, events, transitions, hasOwn, epoch, seq: this.#seq, starts, parks, times };
  }

  /** A command was before the walk's own transition. */
  #takeBack({ transitions, epoch }: Change): void {
    const others = transitions.slice(0, -1);
    this.#isPreceded = true;
    this.#isParked = false;
    this.decided = { status: others.at(-1)?.to ?? "running", epoch: epoch + others.length };
    if (transitions.at(-1)!.to !== "running") this.#seq--; // its event
  }

  /** Decides the start of a fork: the walk takes in the copied results, in one change. */
  #decideFork({ rows, copied }: ForkSource): Change {
    const start = this.#decide();
    const changes = [start];
    const copies = rows.map(({ row: original, key, copied: events }) => {
      const row = { ...original, id: this.#port.newRow(), key };
      changes.push(this.#decide(fromRow(row), row));
      return { row, original: original.id, copied: events };
    });
    return { ...toWhole(changes), row: start.row, at: start.at, copies, copied };
  }

  /**
   * Walks over the rows of a journal. Attempts that were in flight at its end are started again. Returns the first mismatch
   * with the code.
   */
  async replay(pages: AsyncIterable<readonly JournalRow[]>, facts: ReplayFacts = {}): Promise<string | undefined> {
    const started = new Map<string, { plan: AttemptPlan; row: number | undefined }>();
    const take = (input?: JournalInput, row?: JournalRow): void => {
      if (input && "command" in input) this.#isPreceded = false;
      if (input && "key" in input) started.delete(input.key);
      const change = this.#decide(input, row, facts);
      for (const plan of change.starts) started.set(plan.key, { plan, row: row?.id });
      if (change.hasOwn && facts.wasPreceded?.(row?.id ?? 0)) this.#takeBack(change);
      else if (change.hasOwn) this.#walk.confirmTransition();
    };
    let last = "the start";
    take();
    for await (const rows of pages)
      for (const row of rows) {
        const input = fromRow(row);
        if (this.#isPreceded && !("command" in input)) return toStatusMismatch(last);
        const key = "key" in input ? input.key : "wake" in input ? input.wake.key : undefined;
        // For example because a sub-workflow has lost its input schema.
        if (key !== undefined && !this.#walk.isWaitingFor(key)) return toRowMismatch(row.key);
        take(input, row);
        last = row.key;
      }
    for (const { plan, row } of started.values())
      this.#addStarts([plan], (row === undefined ? undefined : facts.nowOf?.(row)) ?? this.#port.clock.now());
    const { status, epoch } = this.#committed;
    return this.decided.status === status && this.decided.epoch === epoch ? undefined : toStatusMismatch(last);
  }

  /** Ends the waits and starts the attempts whose time has come, and sets the next time; or leaves. */
  #proceed(request?: Request): void {
    if (this.#isReleased) return;
    if (!this.mayStart) {
      this.#setAlarm(undefined);
      return this.#leaveIfIdle();
    }
    const waits = this.#waits;
    // Branches continue once the end of their waits is committed.
    if (waits?.mayEnd && waits.end(request)) return;
    const now = waits ? this.#port.clock.monotonic() : 0;
    for (const plan of this.#starts.splice(0)) {
      if (!this.#walk.isWaitingFor(plan.key)) continue;
      if (waits && !waits.agenda.mayStart(plan, now)) {
        this.#starts.push(plan);
        continue;
      }
      this.#unended++;
      this.#port.start(plan);
      if (this.#isStopped) return; // a start can fail the run
    }
    this.#setAlarm(waits?.agenda.times(now, this.#walk));
  }

  /** Adds the attempts of a change; `now` is the time by which their delays are measured. */
  #addStarts(starts: readonly AttemptPlan[], now: number): void {
    for (const plan of starts) {
      this.#starts.push(plan);
      if (plan.dueAt !== undefined) this.#openWaits().agenda.addDelay(plan, plan.dueAt, now);
    }
  }

  /** Leaves if the journal has everything: the execution ended, or is suspended with nothing in flight. */
  #leaveIfIdle(): void {
    const { status } = this.#committed;
    if (this.#isReleased || status === "running" || this.isAhead || this.#waits?.isSearching) return;
    if (status !== "suspended" || this.#unended === 0) this.#port.leave();
  }

  #setAlarm(times: NextTimes | undefined): void {
    if (this.#waits) this.#port.alarm(times, this.#unended === 0 && this.#writing === 0);
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

  /** True if changes were decided that are not committed, or never will be. */
  get isAhead(): boolean {
    return this.#writing > 0 || this.decided.epoch !== this.#committed.epoch;
  }
  /** True if an attempt may start now. */
  get mayStart(): boolean {
    if (this.#isStopped || this.#isPreceded) return false;
    return this.#committed.status === "running" && this.decided.status === "running";
  }
  /** True if an attempt or a branch waits for a time. */
  get hasTimes(): boolean {
    return this.#waits?.agenda.hasTimes ?? false;
  }
  get bytes(): number {
    return this.#bytes;
  }
}
