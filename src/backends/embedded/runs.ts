import { systemClock, type Clock } from "../../core/clock.ts";
import { ServeError, shuttingDown } from "../../core/error.ts";
import { heapPerByte, quarterOfHeap, toWeight, unknownDensity } from "../../core/heap-weight.ts";
import { withIds, type Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { ForkSource } from "../../engine/fork.ts";
import { hasSameSteps } from "../../engine/compare-steps.ts";
import { toEvent, type LiveEvent } from "../../engine/events.ts";
import type { Execution, ExecutionState, Transition } from "../../engine/execution.ts";
import { countStart, countStates } from "../../engine/runs/count-states.ts";
import type { OnSettled } from "../../engine/execution-log.ts";
import { groupOf, type Admissible, type Reservation } from "../../engine/runs/groups.ts";
import { toCommandRow } from "../../engine/runs/journal-row.ts";
import { isTurn } from "../../engine/turn-execution.ts";
import { Changes } from "../../engine/runs/changes.ts";
import type { FoundTakes } from "../../engine/runs/find-takes.ts";
import { Readers } from "../../engine/runs/readers.ts";
import type { Change } from "../../engine/runs/run-port.ts";
import { Slots } from "../../engine/runs/slots.ts";
import { Waiters } from "../../engine/runs/waiters.ts";
import { Drive, type DriveHost, type Request } from "./drive.ts";
import { FileGoneError } from "./file/data-file.ts";
import { unavailable } from "./file/sqlite-error.ts";
import type { Store } from "./store/store.ts";
import type { Commit, StoredState } from "./store/stored-state.ts";
import { Writer } from "./store/writer.ts";
import { Absences } from "./waits/absences.ts";
import { Rests } from "./waits/rests.ts";

export interface RunsOptions {
  readonly store: Store;
  readonly logger: Logger;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  readonly waitingExecutions: number;
  /** The newest `concurrency.limit` of a workflow. */
  readonly limitOf: (workflowId: string) => number;
  readonly executionBytes: number;
  readonly metrics?: Metrics | undefined;
  /** @default the clock of the machine */
  readonly clock?: Clock | undefined;
  readonly onSettled?: OnSettled | undefined;
}

interface CommandOptions {
  /** The drive has nothing in flight: if the store cannot be written, it is forgotten again. */
  readonly isJustLoaded?: boolean;
  /** The drive is handed over when the transition is written. */
  readonly wait?: ((drive: Drive) => void) | undefined;
}

interface BeginParts extends Pick<Reservation, "release"> {
  readonly wait: ((drive: Drive) => void) | undefined;
  readonly source: ForkSource | undefined;
}

/**
 * The executions that this process drives, with their readers, waiters and slots.
 *
 * It owns the map from id to drive.
 * J1. At most one drive per execution. An execution that has ended, or is suspended with nothing in flight, has none, except
 *     while a resume of it is being written.
 * J2. Executions with a drive change only through it.
 * J3. A drive whose execution has become running has a slot, or waits for one.
 */
export class Runs implements DriveHost {
  readonly writer: Writer;
  readonly readers: Readers;
  readonly changes: Changes = new Changes();
  readonly waiters: Waiters = new Waiters();
  readonly slots: Slots;
  readonly rests: Rests;
  readonly #absences: Absences;
  readonly store: Store;
  readonly #logger: Logger;
  readonly #metrics: Metrics | undefined;
  readonly #onSettled: OnSettled;
  readonly executionBytes: number;
  readonly clock: Clock;
  /** Drives by execution id. `forget` empties the box: former tables of the map would retain the drive (`Slots`). */
  readonly #drives = new Map<string, { drive: Drive | undefined }>();
  /** The callers of `nextChange`. */
  readonly #watchers = new Map<string, () => void>();
  /** The time by which durations are measured that began with a row; undefined if they follow the wall clock. */
  nowOf: (row: number) => number | undefined = () => undefined;
  /** A timer was added to the file. */
  onTimer: () => void = () => {};
  /** Called when a turn has ended, or is left to the next start. */
  onTurnEnd: (id: string) => void = () => {};
  /** A branch of an execution may wait for an event, or may take one now. */
  onWait: (drive: Drive) => void = () => {};
  /** Returns true if a stored event may end a wait of a suspended execution. `tell` follows. */
  mayContinue: (drive: Drive) => boolean = () => false;
  /** The suspensions that callers have not been told, because a stored event may end them at once. */
  readonly #untold = new Set<number>();
  /** A drive is gone, and has not seen events that came for its execution meanwhile. */
  onGone: (number: number) => void = () => {};
  /** Called before the last commit of the process. */
  onClosing: () => void = () => {};
  findEvents: (drive: Drive) => Promise<FoundTakes> = () => Promise.resolve({ takes: [] });
  #closing = false;
  #whenIdle = (): void => {};

  constructor(options: RunsOptions) {
    const { store, logger, metrics, sseBufferBytes, executionBytes, limitOf } = options;
    const { runningExecutions: running, queuedExecutions: queued, waitingExecutions: waiting } = options;
    this.executionBytes = executionBytes;
    this.clock = options.clock ?? systemClock;
    this.store = store;
    this.#logger = logger;
    this.#metrics = metrics;
    this.#onSettled = options.onSettled ?? (() => {});
    this.readers = new Readers(sseBufferBytes);
    this.slots = new Slots({ running, queued, bytes: maxRunningBytes() }, { waiting, limitOf });
    this.writer = new Writer({
      transaction: (work) => store.transaction(work),
      durations: metrics?.storeWrites,
      onStall: (error) =>
        logger.error(
          error instanceof FileGoneError
            ? fileGone
            : "The store cannot be written; running executions continue when it can be written again",
          {
            error,
          },
        ),
      onRecovery: () => logger.info("The store can be written again"),
    });
    this.rests = new Rests({
      slots: this.slots,
      writer: this.writer,
      waits: store.waits,
      forget: (drive) => this.forget(drive),
      fail: (drive, error) => this.failed(drive, error),
      onTimer: () => this.onTimer(),
    });
    this.#absences = new Absences({
      slots: this.slots,
      writer: this.writer,
      store,
      fail: (drive, error) => this.failed(drive, error),
    });
  }

  get(id: string): Drive | undefined {
    return this.#drives.get(id)?.drive;
  }
  all(): Drive[] {
    return Array.from(this.#drives.values(), ({ drive }) => drive!);
  }

  /**
   * Starts a new execution, a fork with the results that it copies. Resolves to false when there is one with this id already.
   * `release` gives a reserved place back. With `wait`, the drive is released when the start is written, and handed over.
   */
  begin(execution: Execution, program: Program, { release, wait, source }: BeginParts): Promise<boolean> {
    const state: StoredState = { number: this.store.newNumber(), execution, status: "running", epoch: 0 };
    const drive = new Drive(state, program, this);
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const end = (): void => {
      release();
      drive.release("The execution was not started");
    };
    const request: Request = {
      done: () => {
        if (!isTurn(execution)) countStart(this.#metrics, execution.workflowId);
        // A workflow without steps has ended.
        if (wait && drive.run.decided.status === "running") this.handOver(drive, wait);
        else this.#add(drive);
        release();
        if (!isTurn(execution)) this.changes.publish({ execution, status: "running", epoch: 0 });
        resolve(true);
      },
      lost: () => {
        end();
        resolve(false);
      },
      fail: (error) => {
        end();
        reject(this.toAnswer(error));
      },
      stalled: (cause) => {
        end();
        reject(unavailable("Storage cannot be written: nothing was started", cause));
        return true;
      },
    };
    drive.run.begin(source, request);
    if (wait) this.#markWaiting(drive);
    return promise;
  }

  /** Drives a new execution. */
  #add(drive: Drive): void {
    const { id, input } = drive.execution;
    this.#drives.set(id, { drive });
    if (this.#closing) drive.run.stop(); // it continues at the next start
    if (isTurn(drive.execution)) drive.admit();
    else this.slots.enter(drive, toWeight(input), groupOf(drive));
  }

  /** Lets an execution wait without a drive. */
  handOver(drive: Drive, wait: (drive: Drive) => void): void {
    this.forget(drive); // one that was resumed
    drive.release("The execution waits for its turn");
    wait(drive);
  }

  /** Marks an execution that waits, in the transaction of its start or resume. */
  #markWaiting({ number }: Drive): void {
    this.writer.write({
      work: () => this.store.processes.startWaiting(number),
      done: () => {},
      fail: () => {}, // only a count of crashes depends on it
      stalled: () => true,
    });
  }

  /**
   * Drives an execution of the file from now on, in a slot that it takes over, or else the next free one. Resolves to the
   * reason when its journal does not fit this code.
   */
  async load(found: StoredState, program: Program, slot?: Admissible): Promise<Drive | { mismatch: string }> {
    const { number } = found;
    const { steps } = program;
    const drive = new Drive({ ...found, execution: { ...found.execution, steps } }, program, this);
    const { id } = drive.execution;
    let mismatch: string | undefined;
    try {
      mismatch = await drive.run.replay(this.store.journals.rows(number), { nowOf: this.nowOf });
      this.refuseWhenClosing();
    } catch (error) {
      drive.release("The execution could not be loaded");
      throw this.toAnswer(error);
    }
    const other = this.get(id); // loaded at the same time
    if (other) {
      drive.release("The execution has another drive");
      return other;
    }
    if (mismatch !== undefined) {
      drive.release("The execution does not match the code");
      return { mismatch };
    }
    this.#drives.set(id, { drive });
    if (drive.committed.status === "running") this.onWait(drive);
    if (isTurn(drive.execution)) drive.admit(); // its slot is given back
    else if (slot) this.slots.replace(slot, drive);
    else this.slots.enter(drive, drive.run.bytes * unknownDensity, groupOf(drive));
    // From now on steps of this code begin: later code is compared with it.
    if (!hasSameSteps(found.execution.steps, steps))
      this.writer.write({
        work: () => this.store.redefine(number, steps),
        done: () => {},
        fail: (error) => this.failed(drive, error),
      });
    return drive;
  }

  /**
   * Makes a transition of an execution that has a drive. Resolves to the new state, or to false when another transition was first.
   */
  command(
    drive: Drive,
    next: Transition,
    { isJustLoaded = false, wait }: CommandOptions = {},
  ): Promise<ExecutionState | false> {
    const hint = isJustLoaded ? "nothing was changed" : "check the state of the execution";
    const refused = (cause: unknown): ServeError => unavailable(`Storage cannot be written: ${hint}`, cause);
    const { stallCause } = this.writer;
    if (stallCause && !isJustLoaded) throw refused(stallCause);
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
    drive.run.command(next, {
      done: (commit) => {
        if (wait && !drive.isChanging) this.handOver(drive, wait); // otherwise it ends, or waits with its drive
        resolve(commit.states[0]!);
      },
      lost: () => {
        // The drive was released because a change before this one could not be written.
        const { status, epoch } = this.store.state(drive.execution.id) ?? {};
        const isOpen = status === "running" || status === "suspended";
        if (drive.isReleased && isOpen && epoch === drive.committed.epoch)
          return reject(refused(new Error("The drive was released")));
        // The execution ended while it was loaded.
        this.forget(drive);
        resolve(false);
      },
      fail: (error) => {
        this.failed(drive, error);
        reject(this.toAnswer(error));
      },
      stalled: (cause) => {
        if (isJustLoaded) this.forget(drive);
        reject(refused(cause));
        return isJustLoaded;
      },
    });
    if (wait) this.#markWaiting(drive);
    return promise;
  }

  /** Makes a transition of an execution that has no drive: only its event follows from it. `onCommit` is called before it is published. */
  commandUndriven(
    state: StoredState,
    next: Transition,
    onCommit: () => void = () => {},
  ): Promise<ExecutionState | false> {
    const { number, execution, epoch } = state;
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
    const row = toCommandRow(this.store.newRow(), epoch + 1, next);
    const toChange = (seq: number): Change => {
      return { row, at: next.at, events: [], transitions: [next], hasOwn: false, epoch, seq, starts: [], parks: [] };
    };
    this.writer.write<{ change: Change; commit: Commit } | undefined>({
      work: () => {
        this.store.waits.remove(number);
        const change = toChange(this.store.journals.lastSeq(number) + 1);
        const commit = this.store.save(state, change, noRow);
        return commit && { change, commit };
      },
      done: (saved) => {
        onCommit();
        if (saved) {
          this.rests.leavePlace(number);
          const loaded = this.get(execution.id);
          if (loaded?.committed.epoch === epoch) this.forget(loaded); // it does not know this transition
          this.#publish(execution.id, saved.change, saved.commit);
        }
        resolve(saved ? saved.commit.states[0]! : false);
      },
      fail: (error) => reject(this.toAnswer(error)),
      stalled: (cause) => {
        reject(unavailable("Storage cannot be written: nothing was changed", cause));
        return true;
      },
    });
    return promise;
  }

  /** Writes in one job of the writer. */
  write(work: () => void): Promise<void> {
    return new Promise((resolve, reject) => this.writer.write({ work, done: resolve, fail: reject }));
  }

  /** Like `write`, but does not wait for a store that cannot be written for now. */
  writeOrPass(work: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const stalled = (): true => {
        resolve();
        return true;
      };
      this.writer.write({ work, done: resolve, fail: reject, stalled });
    });
  }

  /** Resolves when every change that was decided before is committed or dropped. */
  written(): Promise<void> {
    return new Promise((resolve, reject) =>
      this.writer.write({
        work: () => {},
        done: resolve,
        fail: (error) => reject(this.toAnswer(error)),
        stalled: (cause) => {
          reject(unavailable("Storage cannot be written: nothing was changed", cause));
          return true;
        },
      }),
    );
  }

  /** Resolves when a row of an execution is committed, its code waits for others, or its drive is forgotten. One caller at a time. */
  nextChange(id: string): Promise<void> {
    return new Promise((resolve) => {
      this.#watchers.set(id, () => {
        this.#watchers.delete(id);
        resolve();
      });
    });
  }

  publish(drive: Drive, change: Change, commit: Commit): void {
    if (change.row?.body) this.slots.grow(drive, toWeight(change.row.body));
    this.changed(drive.execution.id);
    this.#publish(drive.execution.id, change, commit, drive);
    if (change.transitions.some(({ to }) => to === "running")) this.#enter(drive);
  }

  /** Queues a drive for a slot whose execution has just become running, if it has none. */
  #enter(drive: Drive): void {
    if (drive.isReleased || drive.committed.status !== "running" || isTurn(drive.execution)) return;
    if (!this.slots.has(drive)) this.slots.enter(drive, drive.run.bytes * unknownDensity, groupOf(drive));
  }

  /** Calls the caller of `nextChange`. */
  readonly changed = (id: string): void => {
    if (this.#watchers.size > 0) this.#watchers.get(id)?.();
  };

  #publish(id: string, { at, seq }: Change, { events, states }: Commit, drive?: Drive): void {
    if (this.readers.has(id)) {
      const first = seq - events.length + 1;
      for (const [index, event] of events.entries()) this.readers.publish(id, toEvent(id, first + index, at, event));
    }
    if (states.some(({ execution }) => isTurn(execution))) return this.onTurnEnd(id);
    countStates(this.#metrics, states);
    for (const state of states) {
      this.changes.publish(state);
      if (state.last?.to === "suspended" && state.last.wake) this.onTimer();
      if (state.status === "running") continue;
      if (state.status === "suspended" && drive && this.mayContinue(drive)) this.#untold.add(drive.number);
      else this.waiters.notify(id, state);
      this.#onSettled(state, drive?.failedStep);
    }
  }

  isUntold({ number, status }: StoredState): boolean {
    return status === "suspended" && this.#untold.has(number);
  }
  /** Stored events were offered to an execution: its callers are told if it is still suspended. */
  tell(number: number): void {
    if (!this.#untold.delete(number)) return;
    const state = this.store.stateOf(number);
    if (state && state.status !== "running") this.waiters.notify(state.execution.id, state);
  }

  publishLive(event: LiveEvent): void {
    this.readers.publish(event.executionId, event);
  }

  stalled({ execution: { id } }: Drive, cause: unknown): void {
    this.waiters.refuse(id, unavailable(`Execution ${id} continues when storage can be written again`, cause));
  }

  lend(drive: Drive): void {
    this.#absences.begin(drive);
    this.changed(drive.execution.id);
    this.progressed();
  }
  regain(drive: Drive): Promise<void> {
    return this.#absences.end(drive);
  }

  forget(drive: Drive): void {
    const { number, execution, run } = drive;
    const box = this.#drives.get(execution.id);
    if (box?.drive !== drive) return;
    box.drive = undefined;
    this.#drives.delete(execution.id);
    this.rests.forget(number);
    if (run.isAhead) this.onGone(number);
    this.#absences.forget(drive);
    drive.release("The execution is no longer driven by this process");
    this.slots.leave(drive);
    this.changed(execution.id);
    this.progressed();
  }

  /** Stops a drive of which a row can never be written. Its execution stays in the file as it is, for the next start. */
  failed(drive: Drive, error: unknown): void {
    const { id, workflowId, userId, conversationId } = drive.execution;
    if (drive.isReleased) return; // known already
    this.forget(drive);
    if (this.#closing) return;
    const logger = withIds(this.#logger, { executionId: id, workflowId, userId, conversationId });
    logger.error("Execution stopped: a result cannot be stored. It continues at the next start", { error });
    this.waiters.refuse(id, stopped(id));
    this.readers.close(id);
  }

  get isClosing(): boolean {
    return this.#closing;
  }
  refuseWhenClosing(): void {
    if (this.#closing) throw shuttingDown();
  }

  toUnavailable(message: string, cause: unknown): unknown {
    return this.#closing ? shuttingDown() : unavailable(message, cause);
  }

  /** The error of a request: a 503 while the server is shutting down. */
  toAnswer(error: unknown): unknown {
    return this.#closing ? shuttingDown() : error;
  }

  /**
   * Starts no further attempts, and lets those in flight finish within the grace period. What is left continues at the next
   * start. `beside` is other work that writes to the same file.
   */
  async close(drainMs: number, beside?: Promise<unknown>): Promise<void> {
    this.#closing = true;
    this.slots.close();
    for (const { run } of this.all()) run.stop();
    this.readers.closeAll();
    const idle = Promise.withResolvers<void>();
    this.#whenIdle = idle.resolve;
    this.progressed();
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(over.resolve, drainMs);
    const ended = Promise.all([idle.promise, beside]);
    await Promise.race([ended.then(() => this.writer.idle()), over.promise]);
    clearTimeout(timer);
    this.waiters.close(shuttingDown());
    this.onClosing();
    this.writer.close();
    for (const drive of this.all()) drive.release("The server is shutting down");
  }

  progressed(): void {
    // Those that wait for other executions would do so until the end.
    if (this.#closing && !this.all().some((drive) => drive.walk.inFlight > 0 && !this.#absences.has(drive)))
      this.#whenIdle();
  }
}

/** The most bytes of stored values of the executions that run, by their weight. */
const maxRunningBytes = (): number => quarterOfHeap() / heapPerByte;
const fileGone =
  "The data file was deleted or replaced: nothing can be written until it is back or the server is restarted";

const noRow = (): undefined => undefined;

/** The answer to callers that wait for an execution that cannot continue before the next start. */
export const stopped = (id: string): ServeError =>
  new ServeError(500, `Execution ${id} is not running in this process. It continues at the next start`);
