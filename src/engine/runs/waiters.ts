import type { ExecutionState } from "../execution.ts";

interface Waiter {
  readonly afterEpoch: number;
  readonly resolve: (state: ExecutionState) => void;
  readonly reject: (error: unknown) => void;
}

/** The callers that wait for the next suspension or end of an execution. */
export class Waiters {
  readonly #byId = new Map<string, Set<Waiter>>();
  #refusal: Error | undefined;

  /** Resolves at the next suspension or end after a transition; rejects with the reason of the signal. */
  next(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    if (this.#refusal) return Promise.reject(this.#refusal);
    if (signal?.aborted) return Promise.reject(signal.reason);
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
    if (!waiters?.delete(waiter)) return;
    if (waiters.size === 0) this.#byId.delete(id);
    waiter.reject(reason);
  }

  /** Tells the waiters of an execution that it is suspended or ended. */
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

  /** Rejects the waiters of an execution. */
  refuse(id: string, error: Error): void {
    const waiters = this.#byId.get(id);
    this.#byId.delete(id);
    for (const { reject } of waiters ?? []) reject(error);
  }

  /** Rejects all waiters, and all that come later. */
  close(error: Error): void {
    this.#refusal = error;
    for (const id of this.#byId.keys()) this.refuse(id, error);
  }
}
