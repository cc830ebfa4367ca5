import type { Store } from "./store.ts";
import type { Logger } from "../../../core/log.ts";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { FileGoneError } from "../file/data-file.ts";
import { codes, isSqliteError, unavailable } from "../file/sqlite-error.ts";
import type { Durations } from "../../../core/metrics.ts";
import { runOutOfScope } from "../../../core/scope.ts";

/** A unit of work for the group commit. */
export interface Job<T = unknown> {
  /** Writes to the store and changes nothing else: it may run twice. */
  readonly work: () => T;
  /** Called in the order of the jobs, directly after the commit. */
  readonly done: (value: T) => void;
  readonly fail: (error: unknown) => void;
  /** Called while the store cannot be written. Returns whether to drop the job; otherwise it waits. */
  readonly stalled?: (cause: unknown) => boolean;
}

export interface WriterOptions {
  /** Runs work in one transaction. */
  readonly store: { transaction<T>(work: () => T): T };
  /** The store could not be written for `patienceMs`. Called once until `onRecovery`. */
  readonly onStall: (cause: unknown) => void;
  readonly onRecovery: () => void;
  /** Gets the time of each commit. */
  readonly durations?: Durations | undefined;
  /** The time for which a job waits silently. @default 1000 */
  readonly patienceMs?: number;
}

/**
 * Group commit: the jobs of one event-loop turn are one transaction.
 *
 * It owns the queue of jobs and their order. It knows nothing about executions.
 * W1. Jobs are committed, and their `done` is called, in the order of `write`. That is the order of the journal.
 * W2. `done` is called only after the commit, and without a pause after it.
 * W3. A job that fails, fails alone: the others of its transaction are run again one by one.
 * W4. While the store itself cannot be written (full, locked, read-only, deleted), jobs wait. After `patienceMs` a job
 *     whose `stalled` returns true is dropped; the others wait on.
 * W5. Callbacks of jobs must not throw: the callbacks of the other jobs in the transaction would never be called.
 */
export class Writer {
  readonly #options: WriterOptions;
  #jobs: Job[] = [];
  #closed = false;
  /** The jobs that the store could not take, and the time of their first try. */
  readonly #waiting = new Map<Job, number>();
  #cause: unknown;
  #isStalled = false;
  #timer: NodeJS.Timeout | undefined;
  #committedAt = -Infinity;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  /**
   * Writes for a caller; `done` is called directly after the commit. While the store cannot be written, it waits, or with a hint
   * it is dropped and the caller gets a 503.
   */
  request<T>(work: () => T, hint?: string, done?: (value: T) => void): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.write<T>({
      work,
      done: (value) => {
        done?.(value);
        resolve(value);
      },
      fail: reject,
      stalled: (cause) => {
        if (hint !== undefined) reject(unavailable(`Storage cannot be written: ${hint}`, cause));
        return hint !== undefined;
      },
    });
    return promise;
  }

  /** Writes what is not worth waiting for. Resolves to false if the store cannot be written for now. */
  runOrPass(work: () => void): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const stalled = (): true => {
        resolve(false);
        return true;
      };
      this.write({ work, done: () => resolve(true), fail: reject, stalled });
    });
  }

  write<T>(job: Job<T>): void {
    if (this.#closed) return job.fail(new Error("The store is closed"));
    // The cast is safe: `done` only gets the value of its own `work`.
    if (this.#jobs.push(job as Job) === 1 && !this.#timer) runOutOfScope(() => setImmediate(() => this.#flush()));
  }

  /** The reason why jobs wait for the store; undefined when none does. */
  get stallCause(): unknown {
    return this.#isStalled && this.#waiting.size > 0 ? this.#cause : undefined;
  }

  /** True from the first job that waited too long until the next commit. */
  get isStalled(): boolean {
    return this.#isStalled;
  }

  /** The time of the last commit, as `performance.now()`. */
  get committedAt(): number {
    return this.#committedAt;
  }

  /** Resolves after a turn of the event loop without jobs. */
  async idle(): Promise<void> {
    do await (this.#waiting.size > 0 ? sleep(10) : nextTurn());
    while (this.#jobs.length > 0 && !this.#closed);
  }

  /** Commits the remaining jobs and takes no more. A result that cannot be written is lost: its step runs again after the next start. */
  close(): void {
    this.#flush();
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const { fail } of this.#jobs.splice(0)) fail(this.#cause);
  }

  #flush(): void {
    this.#timer = undefined;
    const jobs = this.#jobs;
    this.#jobs = [];
    if (jobs.length > 0) this.#run(jobs);
  }

  #run(jobs: Job[]): void {
    const error = this.#commit(jobs);
    if (error === undefined) return;
    if (isPassing(error)) return this.#wait(jobs, error);
    // One of them failed. Run again one by one, in the same order.
    for (const [index, job] of jobs.entries()) {
      const own = jobs.length === 1 ? error : this.#commit([job]);
      if (own === undefined) continue;
      if (isPassing(own)) return this.#wait(jobs.slice(index), own);
      this.#fail(job, own);
    }
  }

  /** Returns the error; undefined when the jobs are durable. */
  #commit(jobs: Job[]): unknown {
    const began = performance.now();
    let values: unknown[];
    try {
      values = this.#options.store.transaction(() => jobs.map(({ work }) => work()));
    } catch (error) {
      return error;
    }
    this.#committedAt = performance.now();
    this.#options.durations?.observe((this.#committedAt - began) / 1_000);
    this.#recover();
    for (const [index, { done }] of jobs.entries()) done(values[index]);
    return undefined;
  }

  #fail(job: Job, error: unknown): void {
    this.#waiting.delete(job);
    job.fail(error);
  }

  #wait(jobs: Job[], cause: unknown): void {
    const { onStall } = this.#options;
    // A file that is gone does not come back by itself.
    const patienceMs = cause instanceof FileGoneError ? 0 : (this.#options.patienceMs ?? 1_000);
    const now = performance.now();
    this.#cause = cause;
    for (const job of jobs) if (!this.#waiting.has(job)) this.#waiting.set(job, now);
    const isLate = (job: Job): boolean => now - this.#waiting.get(job)! >= patienceMs;
    if (!this.#isStalled && jobs.some(isLate)) {
      this.#isStalled = true;
      onStall(cause);
    }
    const kept = jobs.filter((job) => {
      const givenUp = isLate(job) && job.stalled?.(cause) === true;
      if (givenUp) this.#waiting.delete(job);
      return !givenUp;
    });
    this.#jobs = [...kept, ...this.#jobs];
    // With no job left, the next one tries again.
    if (this.#jobs.length > 0)
      this.#timer ??= runOutOfScope(() => setTimeout(() => this.#flush(), this.#isStalled ? 250 : 25));
  }

  #recover(): void {
    this.#waiting.clear();
    if (this.#isStalled) this.#options.onRecovery();
    this.#isStalled = false;
  }
}

/** True if the store failed, not the job. */
function isPassing(error: unknown): boolean {
  const { busy, locked, noMemory, readOnly, disk, full, cannotOpen } = codes;
  return (
    error instanceof FileGoneError || isSqliteError(error, busy, locked, noMemory, readOnly, disk, full, cannotOpen)
  );
}

interface OpenWriterOptions {
  readonly logger: Logger;
  readonly durations: Durations | undefined;
}

/** The writer of a store. It logs when the store cannot be written, and when it can be again. */
export function openWriter(store: Store, { logger, durations }: OpenWriterOptions): Writer {
  return new Writer({
    store,
    durations,
    onStall: (error) => logger.error(error instanceof FileGoneError ? fileGone : stalled, { error }),
    onRecovery: () => logger.info("The store can be written again"),
  });
}

const fileGone =
  "The data file was deleted or replaced: nothing can be written until it is back or the server is restarted";
const stalled = "The store cannot be written; running executions continue when it can be written again";
