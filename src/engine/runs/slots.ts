import { busy } from "../../core/error.ts";

/** A run that waits for its turn. */
export interface Admissible {
  admit(): void;
}

/** Who may run: so many at once, and so many who wait for their turn, in order. */
export class Slots {
  readonly #most: { readonly running: number; readonly queued: number };
  readonly #running = new Set<Admissible>();
  readonly #queue = new Set<Admissible>();
  /** Those who have been let in and are being written. */
  #entering = 0;

  constructor(most: { running: number; queued: number }) {
    this.#most = most;
  }

  /** Lets one in, or refuses it. Returns how to give the place up. */
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
