import type { WalkSlot } from "./walk.ts";

/** An attempt in flight. */
interface InFlight {
  readonly plan: { readonly key: string };
}

/**
 * The attempts of one walk that wait for other executions.
 *
 * O1. While all attempts in flight do so, the walk has lent its slot: to those that it waits for, among others.
 * O2. Code of the walk continues after a wait only when it has its slot again. Code beside a wait of the same attempt counts
 *     as waiting: its promises do not tell.
 */
export class OutsideWaits {
  readonly #slot: WalkSlot;
  /** The attempts in flight. */
  readonly #attempts: ReadonlyMap<string, InFlight>;
  /** The number of waits of each attempt. */
  #waits: Map<InFlight, number> | undefined;
  #isLent = false;
  #entering: Promise<void> | undefined;

  constructor(slot: WalkSlot, attempts: ReadonlyMap<string, InFlight>) {
    this.#slot = slot;
    this.#attempts = attempts;
  }

  /** Settles like `work`, which waits for another execution, once the code may run again. */
  async wait<T>(attempt: InFlight, work: () => Promise<T>): Promise<T> {
    this.#count(attempt, 1);
    this.lendIfIdle();
    try {
      return await work();
    } finally {
      this.#count(attempt, -1);
      // The code of an attempt that has timed out, or was aborted, runs without a slot.
      if (this.#attempts.get(attempt.plan.key) === attempt) await this.enter();
      setImmediate(() => this.lendIfIdle()); // its code may wait for others still
    }
  }

  #count(attempt: InFlight, change: 1 | -1): void {
    const count = (this.#waits?.get(attempt) ?? 0) + change;
    if (count === 0) this.#waits?.delete(attempt);
    else (this.#waits ??= new Map()).set(attempt, count);
  }

  /** An attempt has begun to wait, or has ended. */
  lendIfIdle(): void {
    if (this.#isLent || !this.#waits?.size || this.#attempts.size === 0) return;
    for (const attempt of this.#attempts.values()) if (!this.#waits.has(attempt)) return;
    this.#isLent = true;
    this.#slot.lend();
  }

  /** Resolves when code may run; undefined if it may run now. */
  enter(): Promise<void> | undefined {
    if (!this.#isLent) return undefined;
    return (this.#entering ??= this.#regain());
  }

  async #regain(): Promise<void> {
    await this.#slot.regain();
    this.#isLent = false;
    this.#entering = undefined;
    setImmediate(() => this.lendIfIdle()); // the attempt that asked for it may have ended
  }
}
