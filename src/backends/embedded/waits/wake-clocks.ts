import type { Clock } from "../../../core/clock.ts";

/** A time of this process in which the wall clock has not jumped. */
interface Stretch {
  /** The number of its clock. */
  readonly clock: number;
  /** The last journal row before it. */
  readonly lastRow: number;
  /** The difference of its clock to the monotonic clock. */
  readonly offset: number;
}

/**
 * The clocks by which stored timers end. Their times are comparable with the wall clock, but only one of them follows it.
 *
 * - 0 is the wall clock itself: for dates.
 * - The clocks of earlier processes are the wall clock too: nothing else is known of the time since.
 * - A clock of this process is the wall clock as it was at its beginning, and from then on the monotonic clock. When the wall
 *   clock jumps, a new one begins; the durations that began before are measured by theirs.
 */
export class WakeClocks {
  readonly #clock: Clock;
  readonly #lastRow: () => number;
  /** The clocks of earlier processes that have timers, and 0. */
  readonly #former: Set<number>;
  /** The clocks of this process that may have timers, and their differences to the monotonic clock. */
  readonly #own = new Map<number, number>();
  /** In the order of time, at least one. */
  readonly #stretches: Stretch[] = [];
  readonly #firstRow: number;

  /** `used` are the clocks that have timers, `lastRow` is the number of the last journal row. */
  constructor(clock: Clock, used: readonly number[], lastRow: () => number) {
    this.#clock = clock;
    this.#lastRow = lastRow;
    this.#firstRow = lastRow() + 1;
    this.#former = new Set([0, ...used]);
    this.#begin(Math.max(...this.#former) + 1);
  }

  #begin(clock: number): void {
    const offset = this.#clock.now() - this.#clock.monotonic();
    this.#own.set(clock, offset);
    this.#stretches.push({ clock, offset, lastRow: this.#lastRow() });
    if (this.#stretches.length <= maxStretches) return;
    // If a clock jumps that often, the oldest durations follow it.
    const oldest = this.#stretches.shift();
    if (oldest && this.#own.delete(oldest.clock)) this.#former.add(oldest.clock);
  }

  /** The clock for durations that begin or are stored now. */
  #current(): Stretch {
    const last = this.#stretches.at(-1)!;
    const offset = this.#clock.now() - this.#clock.monotonic();
    if (Math.abs(offset - last.offset) > toleranceMs) this.#begin(last.clock + 1);
    return this.#stretches.at(-1)!;
  }

  /** A time of the monotonic clock, as it is stored. */
  toStored(monotonic: number): { clock: number; due: number } {
    const { clock, offset } = this.#current();
    return { clock, due: Math.ceil(monotonic + offset) };
  }

  /** The present by the clock of a journal row; undefined for a row of an earlier process. */
  nowOf(row: number): number | undefined {
    if (row < this.#firstRow) return undefined;
    this.#current();
    const { offset } = this.#stretches.findLast(({ lastRow }) => lastRow < row) ?? this.#stretches[0]!;
    return this.#clock.monotonic() + offset;
  }

  /** Every clock that may have timers. */
  all(): number[] {
    return [...this.#former, ...this.#own.keys()];
  }

  /** The time of a clock. */
  now(clock: number): number {
    const offset = this.#own.get(clock);
    return offset === undefined ? this.#clock.now() : this.#clock.monotonic() + offset;
  }

  /** Forgets a clock that has no timers. */
  forget(clock: number): void {
    if (clock !== 0) this.#former.delete(clock);
    if (clock !== this.#stretches.at(-1)!.clock) this.#own.delete(clock);
  }
}

/** A difference between the clocks that is not a jump. */
const toleranceMs = 50;
/** The jumps of one process after which the oldest is forgotten. */
const maxStretches = 100;
