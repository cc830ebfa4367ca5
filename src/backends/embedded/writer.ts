interface Job {
  readonly work: () => unknown;
  readonly done: (value: unknown) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Group commit: what arrives in one turn of the event loop is one transaction. `done` is called in order, at once after the
 * commit. Work only writes to the store: it may be run a second time.
 */
export class Writer {
  readonly #transaction: (work: () => unknown[]) => unknown[];
  #jobs: Job[] = [];
  #closed = false;

  constructor(transaction: <T>(work: () => T) => T) {
    this.#transaction = transaction;
  }

  write<T>(work: () => T, done: (value: T) => void, fail: (error: unknown) => void): void {
    if (this.#closed) return fail(new Error("The store is closed"));
    // What `work` returns is what `done` gets; the queue holds jobs of every type.
    if (this.#jobs.push({ work, done: done as Job["done"], fail }) === 1) setImmediate(() => this.#flush());
  }

  /** Resolves when this work is durable. */
  commit<T>(work: () => T, done: (value: T) => void = () => {}): Promise<T> {
    return new Promise((resolve, reject) => {
      const both = (value: T): void => {
        done(value);
        resolve(value);
      };
      this.write(work, both, reject);
    });
  }

  /** Resolves when a turn of the event loop has brought nothing to write. */
  async idle(): Promise<void> {
    do await new Promise((resolve) => setImmediate(resolve));
    while (this.#jobs.length > 0);
  }

  /** Commits what is left and takes no more. */
  close(): void {
    this.#flush();
    this.#closed = true;
  }

  #flush(): void {
    const jobs = this.#jobs;
    this.#jobs = [];
    if (jobs.length > 0) this.#run(jobs);
  }

  #run(jobs: Job[]): void {
    let values: unknown[];
    try {
      values = this.#transaction(() => jobs.map(({ work }) => work()));
    } catch (error) {
      if (jobs.length === 1) return jobs[0]!.fail(error);
      for (const job of jobs) this.#run([job]); // the one that fails, fails alone
      return;
    }
    for (const [index, { done }] of jobs.entries()) done(values[index]);
  }
}
