import { AsyncResource } from "node:async_hooks";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { Clock, ClockTimer } from "../core/clock.ts";
import { cut } from "../core/cut.ts";
import { durationRule, fromDuration } from "../core/duration.ts";

/** A clock that only tests move. */
export interface TestClock extends Clock {
  /**
   * Moves the time, by milliseconds or a duration such as `"2h"`. Calls that become due are made in the order of their
   * times, and each sees the time at which it was due. Before the next one, the work that it has started continues until
   * it waits for the clock again, or has ended. Work that waits for a network, a file or another process is not awaited.
   */
  advance(by: number | string): Promise<void>;
}

export interface ClockOptions {
  /** The time at which the clock starts. @default the time of the call */
  now?: Date | number | string;
}

/** Creates a clock for `createServer(config, { clock })`. Its time is constant until `advance`. */
export function createClock({ now = Date.now() }: ClockOptions = {}): TestClock {
  const start = new Date(now).getTime();
  if (Number.isNaN(start)) throw new TypeError(`createClock({ now }): expected a time, found ${cut(String(now))}`);
  return new ManualClock(start);
}

interface PendingCall extends ClockTimer {
  readonly due: number;
  readonly run: () => void;
}

/** The turns of the event loop without a use of the clock after which everything waits. */
const quietTurns = 20;
/** The longest computation off the event loop that a request needs before it reaches its handler: to verify a token. */
const requestMs = 2;

export class ManualClock implements TestClock {
  readonly #start: number;
  #elapsed = 0;
  /** In the order in which they were set. */
  readonly #calls = new Set<PendingCall>();
  readonly #held = new Set<PromiseLike<unknown>>();
  #requests = 0;
  /** The number of uses of the clock. It changes while there is work. */
  #uses = 0;
  #advancing: Promise<void> = Promise.resolve();

  constructor(start: number) {
    this.#start = start;
  }

  now(): number {
    this.#uses++;
    return this.#start + this.#elapsed;
  }

  monotonic(): number {
    this.#uses++;
    return this.#elapsed;
  }

  setTimeout(callback: () => void, ms: number): ClockTimer {
    this.#uses++;
    // Like a timer of Node, it is called in the async context of its creation.
    const run = AsyncResource.bind(callback);
    const call: PendingCall = { due: this.#elapsed + Math.max(0, ms), run, unref: () => call };
    this.#calls.add(call);
    return call;
  }

  clearTimeout(timer: ClockTimer | undefined): void {
    this.#uses++;
    this.#calls.delete(timer as PendingCall); // made by `setTimeout` above
  }

  hold(work: PromiseLike<unknown>): void {
    this.#held.add(work);
    const end = (): void => void (this.#held.delete(work), this.#uses++);
    work.then(end, end);
  }

  /** Counts a request until its response. */
  async follow<T>(response: Promise<T>): Promise<T> {
    this.#requests++;
    try {
      return await response;
    } finally {
      this.#requests--;
    }
  }

  advance(by: number | string): Promise<void> {
    const ms = typeof by === "number" ? by : fromDuration(by);
    if (ms === undefined || !(ms >= 0 && ms < Infinity))
      throw new TypeError(`advance(): expected milliseconds or ${durationRule}, found ${cut(String(by))}`);
    const advanced = this.#advancing.then(() => this.#advance(ms));
    this.#advancing = advanced.catch(() => {});
    return advanced;
  }

  async #advance(ms: number): Promise<void> {
    await this.#settle();
    const end = this.#elapsed + ms;
    for (let call = this.#next(end); call; call = this.#next(end)) {
      this.#calls.delete(call);
      this.#elapsed = Math.max(this.#elapsed, call.due);
      call.run();
      await this.#settle();
    }
    this.#elapsed = end;
  }

  /** The earliest call that is due by `end`; the one that was set first, of several. */
  #next(end: number): PendingCall | undefined {
    let next: PendingCall | undefined;
    for (const call of this.#calls) if (call.due <= end && (!next || call.due < next.due)) next = call;
    return next;
  }

  async #settle(): Promise<void> {
    for (let seen = -1; seen !== this.#uses;) {
      seen = this.#uses;
      await Promise.allSettled(this.#held);
      for (let turn = 0; turn < quietTurns && seen === this.#uses; turn++) await nextTurn();
      if (this.#requests > 0 && seen === this.#uses) {
        await sleep(requestMs);
        await nextTurn();
      }
    }
  }
}
