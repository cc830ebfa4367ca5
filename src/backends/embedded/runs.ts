import { systemClock, type Clock } from "../../core/clock.ts";
import { ServeError, shuttingDown } from "../../core/error.ts";
import type { JsonText } from "../../core/json.ts";
import { heapPerByte, quarterOfHeap, toWeight, unknownDensity } from "../../core/heap-weight.ts";
import { withIds, type Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { CopiedRow } from "../../engine/fork.ts";
import { hasSameSteps } from "../../engine/compare-steps.ts";
import { toEvent, type LiveEvent } from "../../engine/events.ts";
import type { Execution, ExecutionState, Transition } from "../../engine/execution.ts";
import { countStart, countStates } from "../../engine/runs/count-states.ts";
import type { OnSettled } from "../../engine/execution-log.ts";
import { groupOf, type Admissible, type Reservation } from "../../engine/runs/groups.ts";
import { toCommandRow } from "../../engine/runs/journal-row.ts";
import type { NextTimes } from "../../engine/runs/agenda.ts";
import type { AttemptRecords } from "../../engine/contract/records.ts";
import { isTurn } from "../../engine/turn-execution.ts";
import { Changes } from "../../engine/runs/changes.ts";
import { Readers } from "../../engine/runs/readers.ts";
import { Run, type Change, type Commit, type Reactions, type RunHost } from "../../engine/runs/run.ts";
import { Slots } from "../../engine/runs/slots.ts";
import { Waiters } from "../../engine/runs/waiters.ts";
import { FileGoneError } from "./file/data-file.ts";
import { unavailable } from "./file/sqlite-error.ts";
import type { Store, StoredState } from "./store/store.ts";
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

export type EmbeddedRun = Run<StoredState>;

interface CommandOptions {
  /** The run has nothing in flight: if the store cannot be written, it is forgotten again. */
  readonly isJustLoaded?: boolean;
  /** The run is handed over when the transition is written. */
  readonly wait?: ((run: EmbeddedRun) => void) | undefined;
}

interface BeginParts extends Pick<Reservation, "release"> {
  readonly wait: ((run: EmbeddedRun) => void) | undefined;
  readonly copied: readonly CopiedRow[] | undefined;
}

/**
 * The executions that this process drives, with their readers, waiters and slots.
 *
 * It owns the map from id to run, and is the only one that commits changes of executions.
 * J1. At most one run per execution. An execution that has ended, or is suspended with nothing in flight, has none, except
 *     while a resume of it is being written.
 * J2. Every change is one job of the writer. Executions with a run change only through it.
 * J3. Nothing of a released run is written.
 * J4. A run whose execution has become running has a slot, or waits for one.
 */
export class Runs implements RunHost<StoredState> {
  readonly writer: Writer;
  readonly readers: Readers;
  readonly changes: Changes = new Changes();
  readonly waiters: Waiters = new Waiters();
  readonly slots: Slots;
  readonly rests: Rests;
  readonly #absences: Absences;
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #metrics: Metrics | undefined;
  readonly #onSettled: OnSettled;
  readonly executionBytes: number;
  readonly clock: Clock;
  readonly #runs = new Map<string, EmbeddedRun>();
  /** The callers of `nextChange`. */
  readonly #watchers = new Map<string, () => void>();
  /** The time by which durations are measured that began with a row; undefined if they follow the wall clock. */
  nowOf: (row: number) => number | undefined = () => undefined;
  /** A timer was added to the file. */
  onTimer: () => void = () => {};
  /** Called when a turn has ended, or is left to the next start. */
  onTurnEnd: (id: string) => void = () => {};
  /** A branch of a run may wait for an event, or may take one now. */
  onWait: (run: EmbeddedRun) => void = () => {};
  /** Returns true if a stored event may end a wait of a run that is suspended. `tell` follows. */
  mayContinue: (run: EmbeddedRun) => boolean = () => false;
  /** The suspensions that callers have not been told, because a stored event may end them at once. */
  readonly #untold = new Set<number>();
  /** A run is gone, and has not seen events that came for its execution meanwhile. */
  onGone: (number: number) => void = () => {};
  /** Called before the last commit of the process. */
  onClosing: () => void = () => {};
  endInOrder: (run: EmbeddedRun, done?: () => void) => Promise<boolean> | undefined = () => undefined;
  #closing = false;
  #whenIdle = (): void => {};

  constructor(options: RunsOptions) {
    const { store, logger, metrics, sseBufferBytes, executionBytes, limitOf } = options;
    const { runningExecutions: running, queuedExecutions: queued, waitingExecutions: waiting } = options;
    this.executionBytes = executionBytes;
    this.clock = options.clock ?? systemClock;
    this.#store = store;
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
      forget: (run) => this.#forget(run),
      fail: (run, error) => this.failed(run, error),
      onTimer: () => this.onTimer(),
    });
    this.#absences = new Absences({
      slots: this.slots,
      writer: this.writer,
      store,
      fail: (run, error) => this.failed(run, error),
    });
  }

  get(id: string): EmbeddedRun | undefined {
    return this.#runs.get(id);
  }
  all(): EmbeddedRun[] {
    return [...this.#runs.values()];
  }

  /**
   * Starts a new execution, a fork with the results that it copies. Resolves to false when there is one with this id already.
   * `release` gives a reserved place back. With `wait`, the run is released when the start is written, and handed over.
   */
  begin(execution: Execution, program: Program, { release, wait, copied }: BeginParts): Promise<boolean> {
    const run = this.#createRun({ number: this.#store.newNumber(), execution, status: "running", epoch: 0 }, program);
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const end = (): void => {
      release();
      run.release("The execution was not started");
    };
    const reactions: Reactions<StoredState> = {
      done: (commit) => {
        if (!commit) end();
        else {
          if (!isTurn(execution)) countStart(this.#metrics, execution.workflowId);
          // A workflow without steps has ended.
          if (wait && run.decided.status === "running") this.handOver(run, wait);
          else this.#drive(run);
          release();
          if (!isTurn(execution)) this.changes.publish({ execution, status: "running", epoch: 0 });
        }
        resolve(commit !== undefined);
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
    run.begin(reactions, copied);
    if (wait) this.#markWaiting(run);
    return promise;
  }

  #drive(run: EmbeddedRun): void {
    const { id, input } = run.execution;
    this.#runs.set(id, run);
    if (this.#closing) run.stop(); // it continues at the next start
    if (isTurn(run.execution)) run.admit();
    else this.slots.enter(run, toWeight(input), groupOf(run));
  }

  /** Lets an execution wait without a run. */
  handOver(run: EmbeddedRun, wait: (run: EmbeddedRun) => void): void {
    this.#forget(run); // one that was resumed
    run.release("The execution waits for its turn");
    wait(run);
  }

  /** Marks an execution that waits, in the transaction of its start or resume. */
  #markWaiting({ committed: { number } }: EmbeddedRun): void {
    this.writer.write({
      work: () => this.#store.startWaiting(number),
      done: () => {},
      fail: () => {}, // only a count of crashes depends on it
      stalled: () => true,
    });
  }

  /**
   * Drives an execution of the file from now on, in a slot that it takes over, or else the next free one. Resolves to the
   * reason when its journal does not fit this code.
   */
  async load(found: StoredState, program: Program, slot?: Admissible): Promise<EmbeddedRun | { mismatch: string }> {
    const { number } = found;
    const { steps } = program;
    const run = this.#createRun({ ...found, execution: { ...found.execution, steps } }, program);
    const { id } = run.execution;
    let mismatch: string | undefined;
    try {
      mismatch = await run.replay(this.#store.journal(number), this.nowOf);
      this.refuseWhenClosing();
    } catch (error) {
      run.release("The execution could not be loaded");
      throw this.toAnswer(error);
    }
    const other = this.#runs.get(id); // loaded at the same time
    if (other) {
      run.release("The execution is driven by another run");
      return other;
    }
    if (mismatch !== undefined) {
      run.release("The execution does not match the code");
      return { mismatch };
    }
    this.#runs.set(id, run);
    if (run.committed.status === "running") this.onWait(run);
    if (isTurn(run.execution)) run.admit(); // its slot is given back
    else if (slot) this.slots.replace(slot, run);
    else this.slots.enter(run, run.bytes * unknownDensity, groupOf(run));
    // From now on steps of this code begin: later code is compared with it.
    if (!hasSameSteps(found.execution.steps, steps))
      this.writer.write({
        work: () => this.#store.redefine(number, steps),
        done: () => {},
        fail: (error) => this.failed(run, error),
      });
    return run;
  }

  /**
   * Makes a transition of an execution that has a run. Resolves to the new state, or to false when another transition was first.
   */
  command(
    run: EmbeddedRun,
    next: Transition,
    { isJustLoaded = false, wait }: CommandOptions = {},
  ): Promise<ExecutionState | false> {
    const hint = isJustLoaded ? "nothing was changed" : "check the state of the execution";
    const refused = (cause: unknown): ServeError => unavailable(`Storage cannot be written: ${hint}`, cause);
    const { stallCause } = this.writer;
    if (stallCause && !isJustLoaded) throw refused(stallCause);
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
    run.command(next, {
      done: (commit) => {
        if (commit) {
          if (wait && !run.isChanging) this.handOver(run, wait); // otherwise it ends, or waits with its run
          return resolve(commit.states[0]!);
        }
        // The run was released because a change before this one could not be written.
        const { status, epoch } = this.#store.state(run.execution.id) ?? {};
        const isOpen = status === "running" || status === "suspended";
        if (run.isReleased && isOpen && epoch === run.committed.epoch)
          return reject(refused(new Error("The run was released")));
        // The execution ended while it was loaded.
        this.#forget(run);
        resolve(false);
      },
      fail: (error) => {
        this.failed(run, error);
        reject(this.toAnswer(error));
      },
      stalled: (cause) => {
        if (isJustLoaded) this.#forget(run);
        reject(refused(cause));
        return isJustLoaded;
      },
    });
    if (wait) this.#markWaiting(run);
    return promise;
  }

  /** Makes a transition of an execution that has no run: only its event follows from it. `onCommit` is called before it is published. */
  commandUndriven(
    state: StoredState,
    next: Transition,
    onCommit: () => void = () => {},
  ): Promise<ExecutionState | false> {
    const { number, execution, epoch } = state;
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
    const row = toCommandRow(this.#store.newRow(), epoch + 1, next);
    const toChange = (seq: number): Change => {
      return { row, at: next.at, events: [], transitions: [next], epoch, seq, starts: [], parks: [] };
    };
    this.writer.write<{ change: Change; commit: Commit<StoredState> } | undefined>({
      work: () => {
        this.#store.waits.remove(number);
        const change = toChange(this.#store.lastSeq(number) + 1);
        const commit = this.#store.save(state, change, noRow);
        return commit && { change, commit };
      },
      done: (saved) => {
        onCommit();
        if (saved) {
          this.rests.leavePlace(number);
          const loaded = this.#runs.get(execution.id);
          if (loaded?.committed.epoch === epoch) this.outrun(loaded); // it does not know this transition
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

  #createRun(state: StoredState, { createWalk }: Program): EmbeddedRun {
    return new Run(state, createWalk, this);
  }

  newRow(): number {
    return this.#store.newRow();
  }

  readRow(run: EmbeddedRun, row: number): JsonText | undefined {
    return this.#store.text(run.committed.number, row);
  }

  async openRecords(run: EmbeddedRun, key: string): Promise<AttemptRecords> {
    const { number } = run.committed;
    const { records, usage: counts } = this.#store;
    const write: AttemptRecords["write"] = (name, text, usage) =>
      new Promise((resolve, reject) => {
        const row = this.newRow();
        const over = (): void => reject(new Error("The execution is no longer driven by this process"));
        this.writer.write({
          work: () => {
            if (!run.isReleased && records.add(row, number, key, name, text) && usage) counts.add(usage);
            return !run.isReleased;
          },
          done: (isWritten) => {
            this.#watchers.get(run.execution.id)?.(); // as after a row
            if (isWritten) resolve();
            else over();
          },
          fail: reject,
          stalled: () => {
            if (run.isReleased) over();
            return run.isReleased;
          },
        });
      });
    return { found: records.read(number, key), write };
  }

  commit(run: EmbeddedRun, change: Change, { done, fail, stalled }: Reactions<StoredState>): void {
    const { number } = run.committed;
    this.writer.write<Commit<StoredState> | undefined>({
      work: () => {
        if (run.isReleased) return undefined;
        this.rests.remove(number);
        return this.#store.save(run.committed, change, (row) => run.readRow(row));
      },
      done: (commit) => {
        if (commit) this.rests.forget(number);
        done(commit);
      },
      fail,
      stalled,
    });
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

  /** Resolves when a row of an execution is committed, its code waits for others, or its run is forgotten. One caller at a time. */
  nextChange(id: string): Promise<void> {
    return new Promise((resolve) => {
      this.#watchers.set(id, () => {
        this.#watchers.delete(id);
        resolve();
      });
    });
  }

  publish(run: EmbeddedRun, change: Change, commit: Commit<StoredState>): void {
    if (change.row?.body) this.slots.grow(run, toWeight(change.row.body));
    if (this.#watchers.size > 0) this.#watchers.get(run.execution.id)?.();
    this.#publish(run.execution.id, change, commit, run);
    if (change.transitions.some(({ to }) => to === "running")) this.#seat(run);
    if (change.parks.length > 0 || change.transitions.length > 0) this.onWait(run);
  }

  /** Queues a run for a slot that has just become running, if it has none. */
  #seat(run: EmbeddedRun): void {
    if (run.isReleased || run.committed.status !== "running" || isTurn(run.execution) || this.slots.has(run)) return;
    this.slots.enter(run, run.bytes * unknownDensity, groupOf(run));
  }

  #publish(id: string, { at, seq }: Change, { events, states }: Commit<StoredState>, run?: EmbeddedRun): void {
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
      if (state.status === "suspended" && run && this.mayContinue(run)) this.#untold.add(run.committed.number);
      else this.waiters.notify(id, state);
      this.#onSettled(state, run?.failedStep);
    }
  }

  isUntold({ number, status }: StoredState): boolean {
    return status === "suspended" && this.#untold.has(number);
  }
  /** Stored events were offered to an execution: its callers are told if it is still suspended. */
  tell(number: number): void {
    if (!this.#untold.delete(number)) return;
    const state = this.#store.stateOf(number);
    if (state && state.status !== "running") this.waiters.notify(state.execution.id, state);
  }

  publishLive(event: LiveEvent): void {
    this.readers.publish(event.executionId, event);
  }

  stalled({ execution: { id } }: EmbeddedRun, cause: unknown): void {
    this.waiters.refuse(id, unavailable(`Execution ${id} continues when storage can be written again`, cause));
  }

  /** Forgets a run that is idle: the file has everything about it. */
  progressed(run: EmbeddedRun): void {
    if (run.isIdle) this.#forget(run);
    this.#checkIdle();
  }

  rest(run: EmbeddedRun, ms: number, times: NextTimes): void {
    this.rests.begin(run, ms, times);
  }
  wakeUp(run: EmbeddedRun): void {
    this.rests.end(run);
  }
  lend(run: EmbeddedRun): void {
    this.#absences.begin(run);
    this.#watchers.get(run.execution.id)?.();
    this.#checkIdle();
  }
  regain(run: EmbeddedRun): Promise<void> {
    return this.#absences.end(run);
  }

  #forget(run: EmbeddedRun): void {
    if (this.#runs.get(run.execution.id) !== run) return;
    this.#runs.delete(run.execution.id);
    this.rests.forget(run.committed.number);
    if (run.isAhead) this.onGone(run.committed.number);
    this.#absences.forget(run);
    run.release("The execution is no longer driven by this process");
    this.slots.leave(run);
    this.#watchers.get(run.execution.id)?.();
  }

  /** Stops a run of which a row can never be written. Its execution stays in the file as it is, for the next start. */
  failed(run: EmbeddedRun, error: unknown): void {
    const { id, workflowId, userId, conversationId } = run.execution;
    if (run.isReleased) return; // known already
    this.#forget(run);
    if (this.#closing) return;
    const logger = withIds(this.#logger, { executionId: id, workflowId, userId, conversationId });
    logger.error("Execution stopped: a result cannot be stored. It continues at the next start", { error });
    this.waiters.refuse(id, stopped(id));
    this.readers.close(id);
  }

  outrun(run: EmbeddedRun): void {
    this.#forget(run);
    this.#checkIdle();
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
    for (const run of this.#runs.values()) run.stop();
    this.readers.closeAll();
    const idle = Promise.withResolvers<void>();
    this.#whenIdle = idle.resolve;
    this.#checkIdle();
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(over.resolve, drainMs);
    const ended = Promise.all([idle.promise, beside]);
    await Promise.race([ended.then(() => this.writer.idle()), over.promise]);
    clearTimeout(timer);
    this.waiters.close(shuttingDown());
    this.onClosing();
    this.writer.close();
    for (const run of this.#runs.values()) run.release("The server is shutting down");
  }

  #checkIdle(): void {
    // Those that wait for other executions would do so until the end.
    if (this.#closing && !this.all().some((run) => run.inFlight > 0 && !this.#absences.has(run))) this.#whenIdle();
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
