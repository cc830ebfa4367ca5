export interface WithinOptions<L> {
  /** Gives the result when the time is over, or throws. */
  readonly onLate: () => L;
  /** Whether the timer keeps the process alive. @default true */
  readonly keepAlive?: boolean;
}

/** The result of a promise, or of `onLate` when the promise takes longer than `ms`. */
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
