import type { Clock, ClockTimer } from "../../../../src/core/clock.ts";

interface Call extends ClockTimer {
  readonly due: number;
  readonly run: () => void;
  handle: NodeJS.Timeout | undefined;
  isUnref: boolean;
}

/** The time of the machine, of which a test leaves out parts: sleeps of hours end at once. Its wall clock may jump. */
export class FastClock implements Clock {
  readonly #start = performance.now();
  readonly #base = Date.now();
  readonly #calls = new Set<Call>();
  readonly #watchers = new Set<() => void>();
  /** Whether the wall clock has ever jumped. */
  hasJumped = false;
  #skipped = 0;
  #jumped = 0;

  now(): number {
    return Math.floor(this.#base + this.monotonic()) + this.#jumped;
  }
  monotonic(): number {
    return performance.now() - this.#start + this.#skipped;
  }
  setTimeout(callback: () => void, ms: number): ClockTimer {
    const call: Call = {
      due: this.monotonic() + Math.max(0, ms),
      run: callback,
      handle: undefined,
      isUnref: false,
      unref() {
        call.isUnref = true;
        call.handle?.unref();
        return call;
      },
    };
    this.#calls.add(call);
    this.#arm(call);
    return call;
  }
  clearTimeout(timer: ClockTimer | undefined): void {
    const call = timer as Call | undefined; // made by `setTimeout` above
    if (!call) return;
    clearTimeout(call.handle);
    this.#calls.delete(call);
  }
  watchJumps(callback: () => void): () => void {
    this.#watchers.add(callback);
    return () => void this.#watchers.delete(callback);
  }

  /** Some time passes. */
  skip(ms: number): void {
    this.#skipped += ms;
    for (const call of this.#calls) this.#arm(call);
  }
  /** The wall clock is set to another time. */
  jump(ms: number): void {
    this.#jumped += ms;
    this.hasJumped ||= ms !== 0;
    for (const watcher of this.#watchers) watcher();
  }

  #arm(call: Call): void {
    clearTimeout(call.handle);
    const fire = (): void => {
      if (call.due > this.monotonic()) return this.#arm(call); // a timer of Node may be early
      this.#calls.delete(call);
      call.run();
    };
    call.handle = setTimeout(fire, Math.min(Math.max(0, call.due - this.monotonic()), 2 ** 31 - 1));
    if (call.isUnref) call.handle.unref();
  }
}
