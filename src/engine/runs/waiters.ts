import type { ExecutionState } from "../execution.ts";

interface Waiter {
  readonly afterEpoch: number;
  readonly resolve: (state: ExecutionState) => void;
  readonly reject: (error: unknown) => void;
}

/** Whoever waits for the next suspension or end of an execution. */
export class Waiters {
  readonly #byId = new Map<string, Set<Waiter>>();
  #refusal: Error | undefined;

  next(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    if (this.#refusal) return Promise.reject(this.#refusal);
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState>();
    const waiter: Waiter = { afterEpoch, resolve, reject };
    const waiters = this.#byId.get(id);
    if (waiters) waiters.add(waiter);
    else this.#byId.set(id, new Set([waiter]));
    signal?.addEventListener("abort", () => this.#leave(id, waiter, signal.reason), { once: true });
    return promise;
  }

  #leave(id: string, waiter: Waiter, reason: unknown): void {
    const waiters = this.#byId.get(id);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#byId.delete(id);
    waiter.reject(reason);
  }

  /** It has been suspended, or has ended. */
  notify(id: string, state: ExecutionState): void {
    const waiters = this.#byId.get(id);
    if (!waiters) return;
    for (const waiter of waiters) {
      if (state.epoch <= waiter.afterEpoch) continue;
      waiters.delete(waiter);
      waiter.resolve(state);
    }
    if (waiters.size === 0) this.#byId.delete(id);
  }

  /** Those who wait for this one are told that it will take long. */
  refuse(id: string, error: Error): void {
    const waiters = this.#byId.get(id);
    this.#byId.delete(id);
    for (const { reject } of waiters ?? []) reject(error);
  }

  /** Nobody waits any more, and nobody will. */
  close(error: Error): void {
    this.#refusal = error;
    for (const id of this.#byId.keys()) this.refuse(id, error);
  }
}
