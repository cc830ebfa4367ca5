import type { ScheduleDefinition } from "./define.ts";

/** Max waiting ticks of one schedule, and max ticks that are made up. */
export const maxDue = 100;
/** The age from which a tick is late. */
export const lateMs = 60_000;

/** A schedule of the current config, and its due ticks. */
export class Entry {
  definition: ScheduleDefinition;
  /** The time from which it has these times. */
  readonly since: number;
  /** True if it had other times before, or was removed. */
  readonly isChanged: boolean;
  /** False if ticks that were missed are not made up. */
  readonly #catchesUp: boolean;
  /** The ticks to decide about, the oldest first. */
  due: number[] = [];
  /** The ticks that were missed since the last look, to be stored. */
  missed: number[] = [];
  /** The time of the next tick. */
  tickAt: number;
  /** The earliest time to work on it. */
  workAt = 0;
  isBusy = false;
  /** True once its stored state was read. */
  isKnown = false;
  /** True while a stored tick waits for the end of an execution. */
  isWaiting = false;
  /** The failures, or the looks at an execution that has not ended, in a row. */
  tries = 0;
  /** The time up to which ticks were looked for. */
  #lookedAt: number;

  constructor(definition: ScheduleDefinition, now: number, options: { isChanged: boolean; catchesUp: boolean }) {
    this.definition = definition;
    this.since = this.#lookedAt = now;
    this.isChanged = options.isChanged;
    this.#catchesUp = options.catchesUp;
    this.tickAt = definition.times.next(now) ?? Infinity;
  }

  /** The time for which missed ticks are made up. */
  get catchUpMs(): number {
    return this.#catchesUp ? this.definition.catchUpMs : 0;
  }
  get hasWork(): boolean {
    return !this.isKnown || this.isWaiting || this.due.length + this.missed.length > 0;
  }

  /** A tick is decided. */
  remove(at: number): void {
    this.due = this.due.filter((other) => other !== at);
  }

  /** Takes in the due ticks. Returns the number of skipped ticks, which waited for too long. */
  takeDue(now: number): number {
    const { times } = this.definition;
    if (this.#lookedAt > now + lateMs) {
      this.#lookedAt = now; // the clock was set back
      this.tickAt = times.next(now) ?? Infinity;
    }
    if (this.tickAt <= now) this.#collect(now);
    return this.due.length > 1 ? this.#leaveOut(now) : 0;
  }

  /** Takes in the ticks since the last look. Those that are late already came while the machine slept: they are missed. */
  #collect(now: number): void {
    const { times } = this.definition;
    const since = Math.max(this.#lookedAt, now - Math.max(lateMs, this.catchUpMs));
    const ticks = times.last(maxDue, since, now);
    this.#lookedAt = now;
    this.tickAt = times.next(now) ?? Infinity;
    this.missed = [...this.missed, ...ticks.filter((at) => isLate(at, now))].slice(-maxDue);
    this.due.push(...ticks.filter((at) => !isLate(at, now)));
    if (this.isWaiting) this.workAt = now; // a tick that comes does not wait for the next look at an older one
  }

  /** Of ticks that have waited until they were late, only the last one is kept, unless they are made up. */
  #leaveOut(now: number): number {
    const { length } = this.due;
    const late = this.due.filter((at) => isLate(at, now));
    const rest = this.due.filter((at) => !isLate(at, now));
    if (this.catchUpMs > 0) {
      this.missed = [...this.missed, ...late].slice(-maxDue);
      this.due = rest.slice(-maxDue);
      return 0;
    }
    this.due = [...late.slice(-1), ...rest].slice(-maxDue);
    return length - this.due.length;
  }
}

const isLate = (at: number, now: number): boolean => now - at > lateMs;
