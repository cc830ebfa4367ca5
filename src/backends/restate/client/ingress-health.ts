import { setTimeout as sleep } from "node:timers/promises";
import { sendJson } from "./http-calls.ts";
import { TimeLimit } from "./time-limit.ts";

const checkMs = 2_000;

interface Watched {
  readonly lost: AbortController;
  /** The number of calls that wait. */
  calls: number;
}

/** Asks an ingress for its health while calls wait on it, and ends them when it hangs: such a call has no time limit. */
export class IngressHealth {
  readonly #watched = new Map<string, Watched>();
  readonly #answerMs: number;

  /** `answerMs` is the time that an ingress has to answer. */
  constructor(answerMs: number) {
    this.#answerMs = answerMs;
  }

  /** Calls `wait` with a signal that is aborted when the ingress hangs. */
  async watch<T>(url: string, wait: (lost: AbortSignal) => Promise<T>): Promise<T> {
    const watched = this.#watched.get(url) ?? this.#start(url);
    watched.calls++;
    try {
      return await wait(watched.lost.signal);
    } finally {
      watched.calls--;
    }
  }

  #start(url: string): Watched {
    const watched: Watched = { lost: new AbortController(), calls: 0 };
    this.#watched.set(url, watched);
    void this.#check(url, watched);
    return watched;
  }

  async #check(url: string, watched: Watched): Promise<void> {
    let isHealthy = true;
    do {
      await sleep(checkMs, undefined, { ref: false });
      if (watched.calls > 0) isHealthy = await this.#isHealthy(url);
    } while (watched.calls > 0 && isHealthy);
    this.#watched.delete(url);
    if (!isHealthy) watched.lost.abort(new DOMException(`${url} does not answer`, "TimeoutError"));
  }

  async #isHealthy(url: string): Promise<boolean> {
    using limit = new TimeLimit(this.#answerMs);
    const answer = sendJson(`${url}/restate/health`, { method: "GET", signal: limit.signal });
    return await answer.then(
      () => true,
      () => false,
    );
  }
}
