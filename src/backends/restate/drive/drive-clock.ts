import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import type { NextTimes } from "../../../engine/runs/run-port.ts";

export interface DueInput {
  readonly dueAt: number;
}

/**
 * The clock of one drive, and its sleeps. Its time is the newest one that Restate's journal has, and does not move while an
 * input is handled, so a repetition of the drive makes the same calls.
 */
export class DriveClock {
  readonly #context: ObjectContext;
  /** The sleeps that Restate's journal has, by the time of their end. */
  readonly #sleeps = new Map<number, RestatePromise<DueInput>>();
  #now: number;

  constructor(context: ObjectContext, now: number) {
    this.#context = context;
    this.#now = now;
  }

  readonly now = (): number => this.#now;
  /** Durations follow the wall clock: the process that measured them may be gone. */
  readonly monotonic = (): number => this.#now;

  advance(now: number): void {
    this.#now = Math.max(this.#now, now);
  }
  async read(dueAt = 0): Promise<void> {
    this.advance(Math.max(await this.#context.date.now(), dueAt));
  }

  /** Resolves at the first of the times, or earlier. */
  until({ elapsed = Infinity, date = Infinity }: NextTimes): RestatePromise<DueInput> {
    const dueAt = Math.min(elapsed, date);
    // A sleep that ends before is good as well: the next one follows it.
    const known = this.#sleeps.get(Math.min(dueAt, ...this.#sleeps.keys()));
    if (known) return known;
    const sleep = this.#context.sleep(Math.max(0, Math.ceil(dueAt - this.#now))).map((): DueInput => ({ dueAt }));
    this.#sleeps.set(dueAt, sleep);
    return sleep;
  }
  async woke({ dueAt }: DueInput): Promise<void> {
    this.#sleeps.delete(dueAt);
    await this.read(dueAt);
  }
}
