interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Whoever waits for the next suspension or end of an execution. */
export class Waiters {
  readonly #byId = new Map<string, Set<Waiter>>();
  #refusal: Error | undefined;

  async next(id: string, signal: AbortSignal | undefined): Promise<void> {
    if (this.#refusal) throw this.#refusal;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { resolve, reject };
    const waiters = this.#byId.get(id) ?? new Set();
    this.#byId.set(id, waiters.add(waiter));
    const leave = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", leave, { once: true });
    try {
      await promise;
    } finally {
      signal?.removeEventListener("abort", leave);
      waiters.delete(waiter);
      if (waiters.size === 0) this.#byId.delete(id);
    }
  }

  notify(id: string): void {
    for (const { resolve } of this.#byId.get(id) ?? []) resolve();
  }

  /** Nobody waits any more, and nobody will. */
  refuse(error: Error): void {
    this.#refusal = error;
    for (const waiters of this.#byId.values()) for (const { reject } of waiters) reject(error);
  }
}
