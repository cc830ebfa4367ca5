import { systemClock, type Clock } from "../../core/clock.ts";
import { shuttingDown } from "../../core/error.ts";
import { heapPerByte, quarterOfHeap, toWeight } from "../../core/byte-budget.ts";
import { withIds, type Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Program } from "../../engine/contract/program.ts";
import { hasSameSteps } from "../../engine/compare-steps.ts";
import type { LiveEvent } from "../../engine/events.ts";
import type { OnSettled } from "../../engine/execution-log.ts";
import { groupOf, type Admissible } from "../../engine/runs/groups.ts";
import { isTurn } from "../../engine/turn-execution.ts";
import type { FoundTakes } from "../../engine/runs/find-takes.ts";
import type { Change } from "../../engine/runs/run-port.ts";
import { Slots } from "../../engine/runs/slots.ts";
import { Publisher, toNotDriven } from "./publisher.ts";
import { Drive, type DriveHost } from "./drive.ts";
import { unavailable } from "./file/sqlite-error.ts";
import type { Store } from "./store/store.ts";
import type { Commit, StoredState } from "./store/stored-state.ts";
import { openWriter, type Writer } from "./store/writer.ts";

export interface DrivesOptions {
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

/**
 * The executions that this process drives, with their readers, waiters and slots.
 *
 * It owns the map from id to drive.
 * J1. At most one drive per execution. An execution that ended, or is suspended with nothing in flight, has none, except
 *     while a resume of it is being written.
 * J2. Executions with a drive change only through it.
 * J3. A drive whose execution has become running has a slot, or waits for one.
 */
export class Drives implements DriveHost {
  readonly writer: Writer;
  readonly publisher: Publisher;
  readonly slots: Slots;
  readonly store: Store;
  readonly #logger: Logger;
  readonly metrics: Metrics | undefined;
  readonly executionBytes: number;
  readonly clock: Clock;
  /** Drives by execution id. `forget` empties the box: former tables of the map would retain the drive (`Slots`). */
  readonly #byId = new Map<string, { drive: Drive | undefined }>();
  /** The callers of `nextChange`. */
  readonly #watchers = new Map<string, () => void>();
  /** The present by the clock of a row, for durations since that row; undefined if they follow the wall clock. */
  nowOf: (row: number) => number | undefined = () => undefined;
  /** A branch of an execution may wait for an event, or may take one now. */
  onWait: (drive: Drive) => void = () => {};
  /** A drive is gone, and has not seen events that came for its execution meanwhile. */
  onGone: (number: number) => void = () => {};
  readonly onTimer = (): void => this.publisher.onTimer();
  /** Called before the last commit of the process. */
  onClosing: () => void = () => {};
  findEvents: (drive: Drive) => Promise<FoundTakes> = () => Promise.resolve({ takes: [] });
  #closing = false;
  onProgress: (() => void) | undefined;

  constructor(options: DrivesOptions) {
    const { store, logger, metrics, sseBufferBytes, executionBytes, limitOf } = options;
    const { runningExecutions: running, queuedExecutions: queued, waitingExecutions: waiting } = options;
    this.executionBytes = executionBytes;
    this.clock = options.clock ?? systemClock;
    this.store = store;
    this.#logger = logger;
    this.metrics = metrics;
    this.publisher = new Publisher({ store, metrics, sseBufferBytes, onSettled: options.onSettled });
    this.slots = new Slots({ running, queued, bytes: quarterOfHeap() / heapPerByte }, { waiting, limitOf });
    this.writer = openWriter(store, { logger, durations: metrics?.storeWrites });
  }

  get(id: string): Drive | undefined {
    return this.#byId.get(id)?.drive;
  }
  all(): Drive[] {
    return Array.from(this.#byId.values(), ({ drive }) => drive!);
  }

  /** Drives a new execution. */
  add(drive: Drive): void {
    const { id, input, fork } = drive.execution;
    const weight = fork ? drive.weight : toWeight(input); // with the values that it copies
    this.#byId.set(id, { drive });
    if (this.#closing) drive.run.stop(); // it continues at the next start
    if (isTurn(drive.execution)) drive.admit();
    else this.slots.enter(drive, weight, groupOf(drive));
  }

  /** Lets an execution wait without a drive. */
  handOver(drive: Drive, wait: (drive: Drive) => void): void {
    this.forget(drive); // one that was resumed
    drive.release("The execution waits for its turn");
    wait(drive);
  }

  /**
   * Drives an execution of the file from now on, in a slot that it takes over, or else the next free one. Resolves to the
   * reason when its journal does not fit this code.
   */
  async load(found: StoredState, program: Program, slot?: Admissible): Promise<Drive | { mismatch: string }> {
    const { number } = found;
    const { steps } = program;
    const drive = new Drive({ ...found, execution: { ...found.execution, steps } }, program, this);
    const { id } = found.execution;
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
    this.#byId.set(id, { drive });
    if (drive.committed.status === "running") this.onWait(drive);
    if (isTurn(drive.execution)) drive.admit(); // its slot is given back
    else if (slot) this.slots.replace(slot, drive);
    else this.slots.enter(drive, drive.weight, groupOf(drive));
    // From now on steps of this code begin: later code is compared with it.
    if (!hasSameSteps(found.execution.steps, steps)) void this.#write(drive, () => this.store.redefine(number, steps));
    return drive;
  }

  /** Like `request` of the writer. A failure while the server is shutting down is a 503. */
  async request<T>(work: () => T, hint: string, done?: (value: T) => void): Promise<T> {
    try {
      return await this.writer.request(work, hint, done);
    } catch (error) {
      throw this.toAnswer(error);
    }
  }
  /** Resolves when every change that was decided before is committed or dropped. */
  written(): Promise<void> {
    return this.request(() => {}, "nothing was changed");
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
    this.changed(drive.execution.id);
    if (change.row?.body) this.slots.grow(drive, toWeight(change.row.body));
    this.publisher.publish(drive.execution.id, change, commit, drive);
    if (change.transitions.some(({ to }) => to === "running")) this.#enter(drive);
  }

  /** Queues a drive for a slot whose execution has just become running, if it has none. */
  #enter(drive: Drive): void {
    if (drive.isReleased || drive.committed.status !== "running" || isTurn(drive.execution)) return;
    if (!this.slots.has(drive)) this.slots.enter(drive, drive.weight, groupOf(drive));
  }

  /** Calls the caller of `nextChange`. */
  readonly changed = (id: string): void => {
    if (this.#watchers.size > 0) this.#watchers.get(id)?.();
  };

  publishLive(event: LiveEvent): void {
    this.publisher.readers.publish(event.executionId, event);
  }

  stalled({ execution: { id } }: Drive, cause: unknown): false {
    this.publisher.waiters.refuse(
      id,
      unavailable(`Execution ${id} continues when storage can be written again`, cause),
    );
    return false;
  }

  async markLent(drive: Drive, isLent: boolean): Promise<void> {
    const { number, execution } = drive;
    const { processes } = this.store;
    if (!isLent) return this.#write(drive, () => processes.endAbsence(number));
    void this.writer.runOrPass(() => processes.startAbsence(number)).catch(() => {}); // a crash counts
    this.changed(execution.id);
    this.onProgress?.();
  }
  /** Never resolves if the work can never be written: the drive has failed. */
  #write(drive: Drive, work: () => void): Promise<void> {
    return new Promise((done) => this.writer.write({ work, done, fail: (error) => this.failed(drive, error) }));
  }

  forget(drive: Drive): void {
    const { number, execution, run } = drive;
    const box = this.#byId.get(execution.id);
    if (box?.drive !== drive) return;
    box.drive = undefined;
    this.#byId.delete(execution.id);
    if (run.isAhead) this.onGone(number);
    drive.release("The execution is no longer driven by this process");
    this.slots.leave(drive);
    this.changed(execution.id);
    this.onProgress?.();
  }

  /** Stops a drive of which a row can never be written. Its execution stays in the file as it is, for the next start. */
  failed(drive: Drive, error: unknown): void {
    const { id, workflowId, userId, conversationId } = drive.execution;
    if (drive.isReleased) return; // known already
    this.forget(drive);
    if (this.#closing) return;
    const logger = withIds(this.#logger, { executionId: id, workflowId, userId, conversationId });
    logger.error("Execution stopped: a result cannot be stored. It continues at the next start", { error });
    this.publisher.waiters.refuse(id, toNotDriven(id));
    this.publisher.readers.close(id);
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
    for (const { run } of this.all()) run.stop();
    this.publisher.readers.closeAll();
    const idle = Promise.withResolvers<void>();
    this.onProgress = () => {
      // Those that wait for other executions would do so until the end.
      if (!this.all().some(({ walk, seat }) => walk.inFlight > 0 && seat.state !== "lent")) idle.resolve();
    };
    this.onProgress();
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(over.resolve, drainMs);
    const ended = Promise.all([idle.promise, beside]).then(() => this.writer.idle());
    await Promise.race([ended, over.promise]);
    clearTimeout(timer);
    this.publisher.waiters.close(shuttingDown());
    this.onClosing();
    this.writer.close();
    for (const drive of this.all()) drive.release("The server is shutting down");
  }
}
