import { AsyncResource } from "node:async_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Clock, type ClockTimer, durationRule, fromDuration } from "../core/clock.ts";
import { cut } from "../core/cut.ts";

/** A clock that only tests move. */
export interface TestClock extends Clock {
  /**
   * Moves the time, by milliseconds or a duration such as `"2h"`. Calls that become due are made in the order of their times,
   * and each sees the time at which it was due. Before the next one, the work started by it continues until it is complete or
   * waits for the clock again. Work that waits for a network, a file or another process is not awaited.
   */
  advance(by: number | string): Promise<void>;
  /**
   * Moves the wall clock alone, forward or back, as when the clock of a machine is set. Dates follow it, durations do not.
   * Resolves when the work started by it is complete, or waits for the clock.
   */
  jump(by: number | string): Promise<void>;
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
  readonly isLazy: boolean;
  readonly run: () => void;
}

/** Event loop turns without a use of the clock, after which everything waits. */
const quietTurns = 20;
/** The lazy calls of one timer in one `advance`, at most. */
const maxLazyCalls = 50;

class ManualClock implements TestClock {
  /** The wall clock at the time 0 of the monotonic clock. */
  #start: number;
  #elapsed = 0;
  readonly #watchers = new Set<() => void>();
  /** In the order in which they were set. */
  readonly #calls = new Set<PendingCall>();
  readonly #held = new Set<PromiseLike<unknown>>();
  /** Counts the uses of the clock. It changes while there is work. */
  #uses = 0;
  #moving: Promise<void> = Promise.resolve();

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

  watchJumps(callback: () => void): () => void {
    this.#watchers.add(callback);
    return () => void this.#watchers.delete(callback);
  }

  setTimeout(callback: () => void, ms: number, { isLazy = false }: { isLazy?: boolean } = {}): ClockTimer {
    this.#uses++;
    // Like a timer of Node, it is called in the async context of its creation.
    const run = AsyncResource.bind(callback);
    const call: PendingCall = { due: this.#elapsed + Math.max(0, ms), isLazy, run, unref: () => call };
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

  advance(by: number | string): Promise<void> {
    const ms = toMs(by);
    if (!(ms >= 0)) throw refusal("advance", by);
    return this.#inOrder(() => this.#advance(ms));
  }

  jump(by: number | string): Promise<void> {
    const isBack = typeof by === "string" && by.startsWith("-");
    const ms = isBack ? -toMs(by.slice(1)) : toMs(by);
    if (Number.isNaN(ms)) throw refusal("jump", by);
    return this.#inOrder(() => this.#jump(ms));
  }

  #inOrder(move: () => Promise<void>): Promise<void> {
    const moved = this.#moving.then(move);
    this.#moving = moved.catch(() => {});
    return moved;
  }

  async #advance(ms: number): Promise<void> {
    await this.#settle();
    const end = this.#elapsed + ms;
    const slack = ms / maxLazyCalls;
    const dueOf = ({ due, isLazy }: PendingCall): number => (isLazy && due <= end ? Math.min(end, due + slack) : due);
    for (let call = this.#next(end, dueOf); call; call = this.#next(end, dueOf)) {
      this.#calls.delete(call);
      this.#elapsed = Math.max(this.#elapsed, dueOf(call));
      call.run();
      await this.#settle();
    }
    this.#elapsed = end;
  }

  async #jump(ms: number): Promise<void> {
    await this.#settle();
    this.#start += ms;
    for (const watcher of this.#watchers) watcher();
    await this.#settle();
  }

  /** The earliest call that is due by `end`; the one that was set first, of several. */
  #next(end: number, dueOf: (call: PendingCall) => number): PendingCall | undefined {
    let next: PendingCall | undefined;
    for (const call of this.#calls) if (dueOf(call) <= end && (!next || dueOf(call) < dueOf(next))) next = call;
    return next;
  }

  async #settle(): Promise<void> {
    for (let seen = -1; seen !== this.#uses;) {
      seen = this.#uses;
      await Promise.allSettled(this.#held);
      for (let turn = 0; turn < quietTurns && seen === this.#uses; turn++) await nextTurn();
    }
  }
}

const toMs = (by: number | string): number => {
  const ms = typeof by === "number" ? by : (fromDuration(by) ?? Number.NaN);
  return Number.isFinite(ms) ? ms : Number.NaN;
};
const refusal = (call: string, by: unknown): TypeError =>
  new TypeError(`${call}(): expected milliseconds or ${durationRule}, found ${cut(String(by))}`);
