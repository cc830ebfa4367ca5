/** The source of time. `agentserve/testing` has one that tests move. */
export interface Clock {
  /** The wall clock, in milliseconds since 1970: for times that are stored or shown. It may jump. */
  now(): number;
  /** Milliseconds since some fixed moment: for intervals. It never jumps. */
  monotonic(): number;
  /** Calls a function once, after some milliseconds. */
  setTimeout(callback: () => void, ms: number): ClockTimer;
  clearTimeout(timer: ClockTimer | undefined): void;
  /** Announces work that uses no timer, such as loading a module. A clock that tests move does not move before its end. */
  hold?(work: PromiseLike<unknown>): void;
}

/** A pending call of a clock. */
export interface ClockTimer {
  /** Lets the process exit while the call is pending. */
  unref(): this;
}

/** The clock of the machine. The globals are looked up with each call, so that fake timers of a test apply. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined), // made by `setTimeout` above
};
