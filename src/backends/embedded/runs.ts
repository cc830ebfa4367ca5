import { systemClock, type Clock } from "../../core/clock.ts";
import { ServeError, shuttingDown } from "../../core/error.ts";
import type { JsonText } from "../../core/json.ts";
import { heapPerByte, quarterOfHeap, toWeight } from "../../core/heap-weight.ts";
import { withIds, type Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Program } from "../../engine/backend.ts";
import { hasSameSteps } from "../../engine/compare-steps.ts";
import { toEvent, type LiveEvent } from "../../engine/events.ts";
import type { Execution, ExecutionState, Transition } from "../../engine/execution.ts";
import { countStart, countStates } from "../../engine/runs/count-states.ts";
import type { FailedStep, OnSettled } from "../../engine/execution-log.ts";
import { toCommandRow } from "../../engine/runs/journal-row.ts";
import { Readers } from "../../engine/runs/readers.ts";
import { Run, type Change, type Commit, type Reactions, type RunHost } from "../../engine/runs/run.ts";
import { Slots, type Admissible } from "../../engine/runs/slots.ts";
import { Waiters } from "../../engine/runs/waiters.ts";
import { FileGoneError } from "./file/data-file.ts";
import { unavailable } from "./file/sqlite-error.ts";
import type { Store, StoredState } from "./store/store.ts";
import { Writer } from "./store/writer.ts";

export interface RunsOptions {
  readonly store: Store;
  readonly logger: Logger;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  readonly executionBytes: number;
  readonly metrics?: Metrics | undefined;
  /** @default the clock of the machine */
  readonly clock?: Clock | undefined;
  readonly onSettled?: OnSettled | undefined;
}

export type EmbeddedRun = Run<StoredState>;

/**
 * The executions that this process drives, with their readers, waiters and slots.
 *
 * It owns the map from id to run, and is the only one that commits changes of executions.
 * J1. At most one run per execution. An execution that has ended, or is suspended with nothing in flight, has none, except
 *     while a resume of it is being written.
 * J2. Every change is one job of the writer. Executions with a run change only through it.
 * J3. Nothing of a released run is written.
 */
export class Runs implements RunHost<StoredState> {
  readonly writer: Writer;
  readonly readers: Readers;
  readonly waiters: Waiters = new Waiters();
  readonly slots: Slots;
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #metrics: Metrics | undefined;
  readonly #onSettled: OnSettled;
  readonly executionBytes: number;
  readonly clock: Clock;
  readonly #runs = new Map<string, EmbeddedRun>();
  /** The callers of `nextChange`. */
  readonly #watchers = new Map<string, () => void>();
  #closing = false;
  #whenIdle = (): void => {};

  constructor(options: RunsOptions) {
    const { store, logger, metrics, sseBufferBytes, runningExecutions, queuedExecutions, executionBytes } = options;
    this.executionBytes = executionBytes;
    this.clock = options.clock ?? systemClock;
    this.#store = store;
    this.#logger = logger;
    this.#metrics = metrics;
    this.#onSettled = options.onSettled ?? (() => {});
    this.readers = new Readers(sseBufferBytes);
    this.slots = new Slots({ running: runningExecutions, queued: queuedExecutions, bytes: maxRunningBytes() });
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
  }

  get(id: string): EmbeddedRun | undefined {
    return this.#runs.get(id);
  }
  all(): EmbeddedRun[] {
    return [...this.#runs.values()];
  }

  /** Starts a new execution. Resolves to false when there is one with this id already. */
  begin(execution: Execution, program: Program): Promise<boolean> {
    this.refuseWhenClosing();
    const release = this.slots.reserve();
    const run = this.#createRun({ number: this.#store.newNumber(), execution, status: "running", epoch: 0 }, program);
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const end = (): void => {
      release();
      run.release("The execution was not started");
    };
    run.begin({
      done: (commit) => {
        if (commit) {
          countStart(this.#metrics, execution.workflowId);
          this.#runs.set(execution.id, run);
          if (this.#closing) run.stop(); // it continues at the next start
          this.slots.enter(run, toWeight(execution.input));
          release();
        } else end();
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
    });
    return promise;
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
      mismatch = await run.replay(this.#store.journal(number));
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
    if (slot) this.slots.replace(slot, run);
    else this.slots.enter(run, run.bytes * unknownDensity);
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
   * Makes a transition of an execution that has a run. Resolves to the new state, or to false when another transition was
   * first. A run that was just loaded has nothing in flight: if the store cannot be written, it is forgotten again.
   */
  command(run: EmbeddedRun, next: Transition, justLoaded = false): Promise<ExecutionState | false> {
    const hint = justLoaded ? "nothing was changed" : "check the state of the execution";
    const refused = (cause: unknown): ServeError => unavailable(`Storage cannot be written: ${hint}`, cause);
    const { stallCause } = this.writer;
    if (stallCause && !justLoaded) throw refused(stallCause);
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
    run.command(next, {
      done: (commit) => {
        if (commit) return resolve(commit.states[0]!);
        // The run was released because a change before this one could not be written.
        const { status } = this.#store.state(run.execution.id) ?? {};
        const isOpen = status === "running" || status === "suspended";
        if (run.isReleased && isOpen) return reject(refused(new Error("The run was released")));
        // The execution ended while it was loaded.
        this.#forget(run);
        resolve(false);
      },
      fail: (error) => {
        this.failed(run, error);
        reject(this.toAnswer(error));
      },
      stalled: (cause) => {
        if (justLoaded) this.#forget(run);
        reject(refused(cause));
        return justLoaded;
      },
    });
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
      return { row, at: next.at, events: [], transitions: [next], epoch, seq, starts: [] };
    };
    this.writer.write<{ change: Change; commit: Commit<StoredState> } | undefined>({
      work: () => {
        const change = toChange(this.#store.lastSeq(number) + 1);
        const commit = this.#store.save(state, change, noRow);
        return commit && { change, commit };
      },
      done: (saved) => {
        onCommit();
        if (saved) this.#publish(execution.id, saved.change, saved.commit);
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

  commit(run: EmbeddedRun, change: Change, { done, fail, stalled }: Reactions<StoredState>): void {
    this.writer.write<Commit<StoredState> | undefined>({
      work: () => (run.isReleased ? undefined : this.#store.save(run.committed, change, (row) => run.readRow(row))),
      done,
      fail,
      stalled,
    });
  }

  /** Writes in one job of the writer. */
  write(work: () => void): Promise<void> {
    return new Promise((resolve, reject) => this.writer.write({ work, done: resolve, fail: reject }));
  }

  /** Resolves when a row of an execution is committed, or its run is forgotten. One caller at a time. */
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
    this.#publish(run.execution.id, change, commit, run.failedStep);
  }

  #publish(id: string, { at, seq }: Change, { events, states }: Commit<StoredState>, failure?: FailedStep): void {
    if (this.readers.has(id)) {
      const first = seq - events.length + 1;
      for (const [index, event] of events.entries()) this.readers.publish(id, toEvent(id, first + index, at, event));
    }
    countStates(this.#metrics, states);
    for (const state of states) {
      if (state.status === "running") continue;
      this.waiters.notify(id, state);
      this.#onSettled(state, failure);
    }
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

  #forget(run: EmbeddedRun): void {
    if (this.#runs.get(run.execution.id) !== run) return;
    this.#runs.delete(run.execution.id);
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

  get isClosing(): boolean {
    return this.#closing;
  }
  refuseWhenClosing(): void {
    if (this.#closing) throw shuttingDown();
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
    this.writer.close();
    for (const run of this.#runs.values()) run.release("The server is shutting down");
  }

  #checkIdle(): void {
    if (this.#closing && !this.all().some(({ inFlight }) => inFlight > 0)) this.#whenIdle();
  }
}

/** The most bytes of stored values of the executions that run, by their weight. */
const maxRunningBytes = (): number => quarterOfHeap() / heapPerByte;
/** The weight of a byte of values that are not loaded. */
export const unknownDensity = 2;

const fileGone =
  "The data file was deleted or replaced: nothing can be written until it is back or the server is restarted";

const noRow = (): undefined => undefined;

/** The answer to callers that wait for an execution that cannot continue before the next start. */
export const stopped = (id: string): ServeError =>
  new ServeError(500, `Execution ${id} is not running in this process. It continues at the next start`);
