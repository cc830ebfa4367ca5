export interface WithinOptions<L> {
  /** Returns the fallback result once the time is over, or throws. */
  readonly onLate: () => L;
  /** False to let the process exit while the timer is pending. @default true */
  readonly keepAlive?: boolean;
}

/** Resolves to the result of a promise, or to that of `onLate` if the promise takes longer than `ms`. */
export function within<T, L>(ms: number, promise: PromiseLike<T>, options: WithinOptions<L>): Promise<T | L> {
  const { onLate, keepAlive = true } = options;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      try {
        resolve(onLate());
      } catch (error) {
        reject(error as Error);
      }
    }, ms);
    if (!keepAlive) timer.unref();
    promise.then(
      (value) => (clearTimeout(timer), resolve(value)),
      (error: unknown) => (clearTimeout(timer), reject(error as Error)),
    );
  });
}
