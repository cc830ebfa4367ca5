import type { ExecutionState } from "../../engine/types.ts";

interface Waiter {
  readonly resolve: (state: ExecutionState) => void;
  readonly reject: (error: unknown) => void;
}

/** Whoever waits for the next suspension or end of an execution. */
export class Waiters {
  readonly #byId = new Map<string, Set<Waiter>>();
  #refusal: Error | undefined;

  async next(id: string, signal: AbortSignal | undefined): Promise<ExecutionState> {
    if (this.#refusal) throw this.#refusal;
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState>();
    const waiter: Waiter = { resolve, reject };
    const waiters = this.#byId.get(id) ?? new Set();
    this.#byId.set(id, waiters.add(waiter));
    const leave = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", leave, { once: true });
    try {
      return await promise;
    } finally {
      signal?.removeEventListener("abort", leave);
      waiters.delete(waiter);
      if (waiters.size === 0) this.#byId.delete(id);
    }
  }

  notify(id: string, state: ExecutionState): void {
    for (const { resolve } of this.#byId.get(id) ?? []) resolve(state);
  }

  /** Those who wait for this one are told that it will take long. */
  refuse(id: string, error: Error): void {
    for (const { reject } of this.#byId.get(id) ?? []) reject(error);
  }

  /** Nobody waits any more, and nobody will. */
  close(error: Error): void {
    this.#refusal = error;
    for (const id of this.#byId.keys()) this.refuse(id, error);
  }
}
