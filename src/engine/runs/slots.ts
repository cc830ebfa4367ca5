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
  #isOpen = false;

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

  /** Gives a run a slot, or puts it into the queue. */
  enter(run: Admissible): void {
    this.#queue.add(run);
    this.#admit();
  }

  /** Begins to give slots. Until then runs are only queued. */
  open(): void {
    this.#isOpen = true;
    this.#admit();
  }

  #admit(): void {
    for (const run of this.#queue) {
      if (!this.#isOpen || this.#running.size >= this.#most.running) return;
      this.#queue.delete(run);
      this.#running.add(run);
      run.admit();
    }
  }

  leave(run: Admissible): void {
    this.#queue.delete(run);
    if (this.#running.delete(run)) this.#admit();
  }
}
