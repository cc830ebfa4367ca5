import { systemClock, type Clock } from "./clock.ts";

export interface WithinOptions<L> {
  /** Returns the fallback result once the time is over, or throws. */
  readonly onLate: () => L;
  /** False to let the process exit while the timer is pending. @default true */
  readonly keepAlive?: boolean;
  /** @default the clock of the machine */
  readonly clock?: Clock;
}

/** Resolves to the result of a promise, or to that of `onLate` if the promise takes longer than `ms`. */
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
