/** Max time that one slice of the limit counts for. */
const sliceMs = 250;

/**
 * A time limit for answers of another process. A stall of this process counts as one slice: an answer that has arrived
 * meanwhile, or that a new connection still needs, is read before the limit ends.
 */
export class TimeLimit implements Disposable {
  readonly #abort = new AbortController();
  #leftMs: number;
  #timer: NodeJS.Timeout;

  constructor(ms: number) {
    this.#leftMs = ms;
    this.#timer = this.#wait();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  #wait(): NodeJS.Timeout {
    const ms = Math.min(sliceMs, this.#leftMs);
    this.#leftMs -= ms;
    const onEnd = (): void => {
      if (this.#leftMs > 0) this.#timer = this.#wait();
      else this.#abort.abort(new DOMException("The time limit is over", "TimeoutError"));
    };
    return setTimeout(onEnd, ms).unref();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
