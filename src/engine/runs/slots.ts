import { busy } from "../../core/error.ts";

/** A run that may be given a slot. */
export interface Admissible {
  /** Must not throw. */
  admit(): void;
}

const maxPasses = 256;

/** The most executions that run, that wait for a slot, and the most bytes of stored values of those that run. */
export interface SlotLimits {
  readonly running: number;
  readonly queued: number;
  readonly bytes: number;
}

/**
 * The slots of running executions, and the bounded queue for them, first come first served.
 *
 * An execution is admitted while fewer than `running` run, and their values together with its own take at most `bytes`. One
 * is always admitted when no other runs, however large it is. Smaller ones may pass one that is too large for now, but not
 * for ever: after `maxPasses` of them, it is next.
 */
export class Slots {
  readonly #most: SlotLimits;
  /** The bytes of each. */
  readonly #running = new Map<Admissible, number>();
  readonly #queue = new Map<Admissible, number>();
  #bytes = 0;
  /** The reservations of executions that are being written. */
  #entering = 0;
  #isOpen = false;
  /** The first run that is too large for now, and how many smaller ones were admitted before it. */
  #passed: { readonly run: Admissible | undefined; count: number } = { run: undefined, count: 0 };
  #isAdmitting = false;

  constructor(most: SlotLimits) {
    this.#most = most;
  }

  /** The number of runs that have a slot. */
  get running(): number {
    return this.#running.size;
  }
  /** The number of runs that wait for a slot. */
  get queued(): number {
    return this.#queue.size;
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
  enter(run: Admissible, bytes: number): void {
    this.#queue.set(run, bytes);
    this.#admit();
  }

  /** Hands a slot over. Without one, the other is not admitted. */
  replace(from: Admissible, to: Admissible): void {
    const bytes = this.#running.get(from);
    if (bytes === undefined) return;
    this.#running.delete(from);
    this.#running.set(to, bytes);
    to.admit();
  }

  /** The values of a run take more bytes. */
  grow(run: Admissible, bytes: number): void {
    const before = this.#running.get(run);
    if (before === undefined) return;
    this.#running.set(run, before + bytes);
    this.#bytes += bytes;
  }

  /** Begins to give slots. Until then runs are only queued. */
  open(): void {
    this.#isOpen = true;
    this.#admit();
  }

  /** Gives no more slots. */
  close(): void {
    this.#isOpen = false;
  }

  #admit(): void {
    if (this.#isAdmitting) return; // a run that leaves while it is admitted: the loop below continues
    this.#isAdmitting = true;
    let hasPassed = false;
    for (const [run, bytes] of this.#queue) {
      if (!this.#isOpen || this.#running.size >= this.#most.running) break;
      if (this.#running.size > 0 && this.#bytes + bytes > this.#most.bytes) {
        if (!hasPassed && run !== this.#passed.run) this.#passed = { run, count: 0 };
        hasPassed = true;
        if (this.#passed.count >= maxPasses) break;
        continue;
      }
      if (hasPassed) this.#passed.count++;
      this.#queue.delete(run);
      this.#running.set(run, bytes);
      this.#bytes += bytes;
      run.admit();
    }
    this.#isAdmitting = false;
  }

  /** Gives a slot back, or leaves the queue. Returns false for a run that was in neither. */
  leave(run: Admissible): boolean {
    const wasQueued = this.#queue.delete(run);
    const bytes = this.#running.get(run);
    if (bytes === undefined) return wasQueued;
    this.#running.delete(run);
    this.#bytes -= bytes;
    this.#admit();
    return true;
  }
}
