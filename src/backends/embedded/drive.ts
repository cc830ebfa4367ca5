import { type Clock, type ClockTimer, maxTimerMs } from "../../core/clock.ts";
import { unknownDensity } from "../../core/byte-budget.ts";
import type { JsonText } from "../../core/json.ts";
import type { Walk } from "../../engine/attempts/walk.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { FailedStep } from "../../engine/execution-log.ts";
import type { LiveEvent } from "../../engine/events.ts";
import type { Execution } from "../../engine/execution.ts";
import type { FoundTakes } from "../../engine/runs/find-takes.ts";
import type { Admissible } from "../../engine/runs/groups.ts";
import { textOf, type JournalRow } from "../../engine/runs/journal-row.ts";
import { Run } from "../../engine/runs/run.ts";
import { Seat } from "../../engine/runs/seat.ts";
import type { Slots } from "../../engine/runs/slots.ts";
import {
  notStarted,
  type Change,
  type CommitOutcome,
  type RunPort,
  type NextTimes,
} from "../../engine/runs/run-port.ts";
import type { AttemptPlan } from "../../engine/walk/decision.ts";
import { inputRow } from "../../engine/walk/value.ts";
import { openRecords } from "./open-records.ts";
import type { Store } from "./store/store.ts";
import type { Commit, StoredState } from "./store/stored-state.ts";
import type { Writer } from "./store/writer.ts";

/** The answers to the caller of one change. Without them, a result that cannot be stored fails the drive. They must not throw. */
export interface Request {
  /** The change is durable, and not published yet. */
  readonly done?: (commit: Commit) => void;
  /** Nothing was written, because another writer was first or the drive is released. */
  readonly lost?: () => void;
  /** The change can never be written. */
  readonly fail?: (error: unknown) => void;
  /** The store cannot be written for now. Returns whether to drop the change; otherwise it waits until it can be. */
  readonly stalled?: (cause: unknown) => boolean;
}

/** The process around a drive. */
export interface DriveHost {
  readonly store: Store;
  readonly writer: Writer;
  readonly clock: Clock;
  readonly executionBytes: number;
  readonly slots: Slots;
  publish(drive: Drive, change: Change, commit: Commit): void;
  publishLive(event: LiveEvent): void;
  /** The execution has a further row or record. */
  changed(id: string): void;
  /** Called at the end of an attempt while the process drains. */
  onProgress?: (() => void) | undefined;
  /** A result waits until the store can be written again. It is never dropped. */
  stalled(drive: Drive, cause: unknown): false;
  /** A result can never be written. */
  failed(drive: Drive, error: unknown): void;
  /** The file has everything about the execution, or another writer was first. */
  forget(drive: Drive): void;
  /** Stores whether all its code waits for other executions. */
  markLent(drive: Drive, isLent: boolean): Promise<void>;
  /** Finds the events that branches may take. Never rejects. */
  findEvents(drive: Drive): Promise<FoundTakes>;
  /** A timer was added to the file. */
  onTimer(): void;
  /** A wait began or the status changed. Branches may take other events now. */
  onWait(drive: Drive): void;
}

/**
 * One execution that this process drives: the backend of its run.
 *
 * E1. Every change is one job of the writer. Nothing of a released drive is written.
 * E2. An attempt starts only with a slot. Until then it is held; if the execution is suspended before, it was not started.
 * E3. Without attempts, and with a time to wait for, the drive rests: it has no slot until an attempt starts. It keeps its
 *     place in its group.
 * E4. From `minStoredRestMs` on the file says that it rests: a crash does not interrupt it. The file says that the rest is over
 *     before its code runs.
 * E5. From `maxDrivenRestMs` on it has no drive, and a timer in the file continues it.
 */
export class Drive implements RunPort<Request>, Admissible {
  readonly run: Run<Request>;
  readonly walk: Walk;
  readonly execution: Execution;
  /** The number under which the file keeps the execution. */
  readonly number: number;
  readonly clock: Clock;
  readonly executionBytes: number;
  readonly seat: Seat;
  readonly newRow: RunPort["newRow"];
  /** The state as committed: the one that callers see. Set only by `append`. */
  committed: StoredState;
  /** Nothing of it is written any more. Set only by `release`. */
  isReleased = false;
  /** Resolves when the run has got the events of its last search. */
  search: Promise<void> = Promise.resolve();
  readonly #host: DriveHost;
  /** The rows being written, for values that refer to them. */
  readonly #unwritten = new Map<number, JournalRow>();
  /** The number of changes that are being written. The run counts a change longer: until it is published. */
  #writing = 0;
  /** The attempts that wait for a slot. */
  #held: AttemptPlan[] = [];
  #timer: ClockTimer | undefined;
  /** True if the file may know the execution as resting. */
  #isRestStored = false;

  constructor(state: StoredState, { createWalk }: Program, host: DriveHost) {
    this.execution = state.execution;
    this.number = state.number;
    this.clock = host.clock;
    this.executionBytes = host.executionBytes;
    this.committed = state;
    this.#host = host;
    this.newRow = host.store.newRow;
    this.seat = new Seat(this, { slots: host.slots, markLent: (isLent) => host.markLent(this, isLent) });
    this.walk = createWalk(state.execution, {
      readRow: (row) => this.#readForAttempt(row),
      publishLive: (event) => host.publishLive(event),
      clock: host.clock,
      slot: this.seat,
      openRecords: async (key) => openRecords(this, host, key),
    });
    this.run = new Run(state, this.walk, this);
  }

  /** Children go first: their parents wait for them. */
  get isFirst(): boolean {
    return this.execution.parent !== undefined;
  }
  /** The heap of its values, which are not loaded. */
  get weight(): number {
    return this.run.bytes * unknownDensity;
  }
  /** True while the execution runs, and only waits for a time. */
  get #isResting(): boolean {
    return this.seat.state === "resting" && !this.run.isAhead;
  }
  /** True while another change is being written, and when the execution does not run. */
  get isChanging(): boolean {
    return this.#writing > 0 || this.run.decided.status !== "running";
  }
  /** The step whose failure ended the execution. */
  get failedStep(): FailedStep | undefined {
    const { last } = this.committed;
    return last && "error" in last ? this.walk.failedStep(last.error) : undefined;
  }

  append(change: Change, request: Request = {}, onOutcome: (outcome: CommitOutcome) => void): void {
    const host = this.#host;
    const wasSuspended = this.committed.status === "suspended";
    const { row, hasOwn } = change;
    if (hasOwn) this.walk.confirmTransition(); // no other process decides about this execution
    if (row) this.#unwritten.set(row.id, row);
    this.#writing++;
    const lost = (): void => {
      if (wasSuspended) host.forget(this); // a request was committed before, without this drive
      else host.failed(this, new Error("Another process changed the execution"));
    };
    host.writer.write<Commit | undefined>({
      work: () => {
        if (this.isReleased) return undefined;
        if (this.#isRestStored) host.store.waits.remove(this.number);
        return host.store.save(this.committed, change, (id) => this.#readRow(id));
      },
      done: (commit) => {
        this.#writing--;
        if (!commit) return (request.lost ?? lost)();
        this.#isRestStored = false;
        const state = commit.states.at(-1);
        this.committed = state ?? this.committed;
        request.done?.(commit); // answers the caller, and registers a new drive
        host.publish(this, change, commit);
        onOutcome({ state });
        if (row) this.#unwritten.delete(row.id); // only now: an attempt that has just started need not read the file
        if (this.#held.length > 0 && this.committed.status !== "running") this.#settleHeld();
        if (change.parks.length > 0 || change.transitions.length > 0) host.onWait(this);
      },
      fail: request.fail ?? ((error) => host.failed(this, error)),
      stalled: request.stalled ?? ((cause) => host.stalled(this, cause)),
    });
  }

  start(plan: AttemptPlan): void {
    const { state } = this.seat;
    if (state === "running") return this.#start(plan);
    this.#held.push(plan);
    if (state !== "resting") return;
    this.seat.wake();
    this.#endRest();
  }

  #start(plan: AttemptPlan): void {
    this.walk.start(plan, (result) => {
      this.run.end(plan, result);
      this.#host.onProgress?.();
    });
  }

  /** Takes the slot. */
  admit(): void {
    this.seat.admit();
    this.#settleHeld();
    if (this.committed.status === "running") this.run.time();
  }

  #settleHeld(): void {
    for (const plan of this.#held.splice(0))
      if (this.run.mayStart && this.walk.isWaitingFor(plan.key)) this.#start(plan);
      else this.run.end(plan, notStarted);
  }

  alarm(times: NextTimes | undefined, isIdle: boolean): void {
    const { clock } = this;
    clock.clearTimeout(this.#timer);
    if (!times) return;
    const { elapsed = Infinity, date = Infinity } = times;
    const ms = Math.max(0, Math.min(elapsed - clock.monotonic(), date - clock.now()));
    this.#timer = clock.setTimeout(() => this.run.time(), Math.min(ms, maxTimerMs));
    if (!isIdle) return;
    this.seat.rest();
    if (this.seat.state === "resting" && ms >= minStoredRestMs) this.#storeRest(ms, times);
  }

  #storeRest(ms: number, times: NextTimes): void {
    const { slots, writer, store } = this.#host;
    const { number } = this;
    const events = this.walk.parkedBranches().flatMap(({ event }) => event ?? []);
    this.#isRestStored = true;
    writer.write({
      work: () => (this.#isResting ? store.waits.rest(number, times, events) : undefined),
      done: () => {
        if (!this.#isResting || this.isReleased || ms <= maxDrivenRestMs) return;
        slots.replacePlace(this, number);
        this.#host.forget(this);
        this.#host.onTimer();
      },
      fail: () => {}, // it rests in memory
      stalled: () => true,
    });
  }

  /** Queues behind what already waits for a slot. */
  #endRest(): void {
    const { slots, writer, store } = this.#host;
    const enter = (): void => {
      if (!this.isReleased) slots.enter(this, this.weight);
    };
    if (!this.#isRestStored) return enter();
    // Durable before its code runs: from now on a crash counts.
    writer.write({
      work: () => store.waits.remove(this.number),
      done: () => {
        this.#isRestStored = false;
        enter();
      },
      fail: (error) => this.#host.failed(this, error),
    });
  }

  findEvents(onFound: (found: FoundTakes) => void): void {
    this.search = this.#host.findEvents(this).then(onFound);
  }

  leave(): void {
    this.#host.forget(this);
  }

  /** Ends the drive; attempts in flight are aborted. */
  release(reason: string): void {
    if (this.isReleased) return;
    this.isReleased = true;
    this.run.release();
    this.#held = [];
    this.walk.release(reason);
  }

  /** The text of a row, written already or not. */
  #readRow(row: number): JsonText | undefined {
    if (row === inputRow) return this.execution.input;
    const unwritten = this.#unwritten.get(row);
    return unwritten ? textOf(unwritten) : this.#host.store.journals.text(this.number, row);
  }

  /** Reads a row for an attempt. If the store fails, the drive fails and not the step: the step runs again at the next start. */
  #readForAttempt(row: number): JsonText | undefined {
    try {
      return this.#readRow(row);
    } catch (error) {
      this.#host.failed(this, error);
      throw error;
    }
  }
}

/** Min rest that the file has. */
const minStoredRestMs = 250;
/** Max rest of a drive in memory. */
const maxDrivenRestMs = 5_000;
