/** The source of time. `agentserve/testing` has one that tests move. */
export interface Clock {
  /** The wall clock, in milliseconds since 1970: for times that are stored or shown. It may jump. */
  now(): number;
  /** Milliseconds since some fixed moment: for intervals. It never jumps. */
  monotonic(): number;
  /** Calls a function once, after some milliseconds. A lazy call may be late: a clock that tests move makes few of them. */
  setTimeout(callback: () => void, ms: number, options?: { readonly isLazy?: boolean }): ClockTimer;
  clearTimeout(timer: ClockTimer | undefined): void;
  /** Calls a function soon after each jump of the wall clock. Returns a function that stops this. */
  watchJumps?(callback: () => void): () => void;
  /** Announces work that uses no timer, such as loading a module. A clock that tests move does not move before its end. */
  hold?(work: PromiseLike<unknown>): void;
}

/** A pending call of a clock. */
export interface ClockTimer {
  /** Lets the process exit while the call is pending. */
  unref(): this;
}

/** The interval at which the wall clock is checked for jumps, and the min difference of a jump. */
const watchMs = 1_000;
const jumpMs = 50;

const toOffset = (): number => Date.now() - performance.now();

function watchJumps(callback: () => void): () => void {
  let last = toOffset();
  const timer = setInterval(() => {
    const now = toOffset();
    if (Math.abs(now - last) <= jumpMs) return;
    last = now;
    callback();
  }, watchMs).unref();
  return () => clearInterval(timer);
}

/** The clock of the machine. The globals are looked up with each call, so that fake timers of a test apply. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined), // made by `setTimeout` above
  watchJumps,
};

export interface WithinOptions<L> {
  /** Returns the fallback result once the time is over, or throws. */
  readonly onLate: () => L;
  /** False to let the process exit while the timer is pending. @default true */
  readonly keepAlive?: boolean;
  /** @default the clock of the machine */
  readonly clock?: Clock;
}

/** Resolves to the result of a promise. If the promise takes longer than `ms`, resolves to the result of `onLate`. */
export function within<T, L>(ms: number, promise: PromiseLike<T>, options: WithinOptions<L>): Promise<T | L> {
  const { onLate, keepAlive = true, clock = systemClock } = options;
  return new Promise((resolve, reject) => {
    const timer = clock.setTimeout(() => {
      try {
        resolve(onLate());
      } catch (error) {
        reject(error as Error);
      }
    }, ms);
    if (!keepAlive) timer.unref();
    promise.then(
      (value) => (clock.clearTimeout(timer), resolve(value)),
      (error: unknown) => (clock.clearTimeout(timer), reject(error as Error)),
    );
  });
}

const units: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

export const durationRule = 'a duration such as "30m", "12h" or "7d"';

/** Parses a duration such as `"7d"` to milliseconds. Returns undefined for any other value. */
export function fromDuration(text: unknown): number | undefined {
  const [, count, unit] = /^(\d{1,9})(ms|s|m|h|d|w)$/.exec(typeof text === "string" ? text : "") ?? [];
  const size = units[unit ?? ""];
  return count && size ? Number(count) * size : undefined;
}

/** The max delay of a Node timer. With a longer one it fires at once. */
export const maxTimerMs: number = 2 ** 31 - 1;
