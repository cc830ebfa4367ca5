import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { codes, isSqliteError } from "./sqlite-error.ts";
import { runOutOfScope } from "../../core/scope.ts";

/** What is to be written together with what others write. */
export interface Job<T = unknown> {
  /** Only writes to the store: it may be run again. */
  readonly work: () => T;
  /** Called in order, at once after the commit. */
  readonly done: (value: T) => void;
  readonly fail: (error: unknown) => void;
  /** The store cannot be written now. True gives the job up; otherwise it waits until it can be written. */
  readonly onFault?: (error: unknown) => boolean;
}

export interface WriterOptions {
  /** All of it becomes durable, or none. */
  readonly transaction: <T>(work: () => T) => T;
  /** The store cannot be written, and that has lasted. Called once, until `onMended`. */
  readonly onFault: (error: unknown) => void;
  readonly onMended: () => void;
  /** How long a job waits before that is a fault. */
  readonly patienceMs?: number;
}

/**
 * Group commit: what arrives in one turn of the event loop is one transaction. A job that fails, fails alone. While the
 * store itself fails (full, locked, read-only), what has happened waits, and what is asked for is refused after a while.
 */
export class Writer {
  readonly #options: WriterOptions;
  #jobs: Job[] = [];
  #closed = false;
  /** Those of the jobs that the store could not take, and since when. */
  readonly #waiting = new Map<Job, number>();
  #cause: unknown;
  #faulty = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  write<T>(job: Job<T>): void {
    if (this.#closed) return job.fail(new Error("The store is closed"));
    // What `work` returns is what `done` gets; the queue holds jobs of every type.
    if (this.#jobs.push(job as Job) === 1 && !this.#timer) runOutOfScope(() => setImmediate(() => this.#flush()));
  }

  /** Why the store cannot be written now; undefined when it can, as far as anybody knows. */
  get fault(): unknown {
    return this.#faulty && this.#waiting.size > 0 ? this.#cause : undefined;
  }

  /** Resolves when a turn of the event loop has brought nothing to write. */
  async idle(): Promise<void> {
    do await (this.#waiting.size > 0 ? sleep(10) : nextTurn());
    while (this.#jobs.length > 0 && !this.#closed);
  }

  /** Commits what is left and takes no more. What cannot be written is lost: it runs again after the next start. */
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
    // One of them fails, and fails alone. The order stays: it is the order of the journal.
    for (const [index, job] of jobs.entries()) {
      const own = jobs.length === 1 ? error : this.#commit([job]);
      if (own === undefined) continue;
      if (isPassing(own)) return this.#wait(jobs.slice(index), own);
      this.#fail(job, own);
    }
  }

  /** Undefined when all of it is durable, else what went wrong. */
  #commit(jobs: Job[]): unknown {
    let values: unknown[];
    try {
      values = this.#options.transaction(() => jobs.map(({ work }) => work()));
    } catch (error) {
      return error;
    }
    this.#mend();
    for (const [index, { done }] of jobs.entries()) done(values[index]);
    return undefined;
  }

  #fail(job: Job, error: unknown): void {
    this.#waiting.delete(job);
    job.fail(error);
  }

  #wait(jobs: Job[], cause: unknown): void {
    const { patienceMs = 1_000, onFault } = this.#options;
    const now = Date.now();
    this.#cause = cause;
    for (const job of jobs) if (!this.#waiting.has(job)) this.#waiting.set(job, now);
    const isLate = (job: Job): boolean => now - this.#waiting.get(job)! >= patienceMs;
    if (!this.#faulty && jobs.some(isLate)) {
      this.#faulty = true;
      onFault(cause);
    }
    const kept = jobs.filter((job) => {
      const givenUp = isLate(job) && job.onFault?.(cause) === true;
      if (givenUp) this.#waiting.delete(job);
      return !givenUp;
    });
    this.#jobs = [...kept, ...this.#jobs];
    // With nothing left to write, the next request tries by itself.
    if (this.#jobs.length > 0)
      this.#timer ??= runOutOfScope(() => setTimeout(() => this.#flush(), this.#faulty ? 250 : 25));
  }

  #mend(): void {
    this.#waiting.clear();
    if (this.#faulty) this.#options.onMended();
    this.#faulty = false;
  }
}

/** Whether the store has failed, not the job. */
function isPassing(error: unknown): boolean {
  const { busy, locked, noMemory, readOnly, disk, full, cannotOpen } = codes;
  return isSqliteError(error, busy, locked, noMemory, readOnly, disk, full, cannotOpen);
}
