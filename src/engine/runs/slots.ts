import { busy } from "../../core/error.ts";

/** A run that may be given a slot. */
export interface Admissible {
  admit(): void;
}

/** The slots of running executions, and the bounded queue for them, first come first served. */
export class Slots {
  readonly #most: { readonly running: number; readonly queued: number };
  readonly #running = new Set<Admissible>();
  readonly #queue = new Set<Admissible>();
  /** The reservations of executions that are being written. */
  #entering = 0;

  constructor(most: { running: number; queued: number }) {
    this.#most = most;
  }

  /** Reserves a place in the slots or the queue, or throws a 503. Returns the release. */
  reserve(): () => void {
    const { running, queued } = this.#most;
    if (this.#running.size + this.#queue.size + this.#entering >= running + queued)
      throw busy("Too many executions are running", 1);
    this.#entering++;
    return () => void this.#entering--;
  }

  enter(run: Admissible): void {
    if (this.#running.size >= this.#most.running) return void this.#queue.add(run);
    this.#running.add(run);
    run.admit();
  }

  leave(run: Admissible): void {
    this.#queue.delete(run);
    if (!this.#running.delete(run)) return;
    const [next] = this.#queue;
    if (!next) return;
    this.#queue.delete(next);
    this.#running.add(next);
    next.admit();
  }
}
