/** Max time that one slice of the limit counts for. */
const sliceMs = 250;

/**
 * A time limit for answers of another process. A stall of this process counts as one slice: an answer that has arrived
 * meanwhile, or that a new connection still needs, is read before the limit ends. It ends after twice its time at the latest,
 * in a process that stalls again and again.
 */
export class TimeLimit implements Disposable {
  readonly #abort = new AbortController();
  readonly #begun = performance.now();
  readonly #ms: number;
  #leftMs: number;
  #timer: NodeJS.Timeout;

  constructor(ms: number) {
    this.#ms = ms;
    this.#leftMs = ms;
    this.#timer = this.#wait();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  #wait(): NodeJS.Timeout {
    const ms = Math.min(sliceMs, this.#leftMs);
    this.#leftMs -= ms;
    return setTimeout(() => this.#onSlice(), ms).unref();
  }

  #onSlice(): void {
    const elapsed = performance.now() - this.#begun;
    // After a stall, one more slice: sockets are read after timers.
    if (elapsed > 2 * this.#ms) this.#leftMs = Math.min(this.#leftMs, sliceMs);
    // Timers may be early, those of a test by seconds.
    else this.#leftMs = Math.max(this.#leftMs, this.#ms - elapsed);
    if (this.#leftMs > 0) this.#timer = this.#wait();
    else this.#abort.abort(new DOMException("The time limit is over", "TimeoutError"));
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
