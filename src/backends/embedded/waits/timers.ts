import { type ClockTimer, maxTimerMs } from "../../../core/clock.ts";
import { ServeError } from "../../../core/error.ts";
import type { DueTimer } from "../store/tables/wait-table.ts";
import type { EngineParts } from "../engine-parts.ts";
import type { Sleepers } from "./sleepers.ts";
import { WakeClocks } from "./wake-clocks.ts";

interface TimersParts extends EngineParts {
  readonly sleepers: Sleepers;
}

/**
 * Wakes due executions without a drive: sleeping ones, and those at the end of a retry delay.
 *
 * It owns the one process timer for all of them. Its state is in the file: nothing is in memory for a sleeping execution.
 * T1. A timer is removed by the transaction of what it leads to. Until then it is due, also for the next process.
 * T2. At most `maxWaking` executions are being woken at the same time, and none while too many of them wait for a slot.
 * T3. An execution that could not be woken is tried again later. It does not delay others.
 */
export class Timers {
  readonly #parts: TimersParts;
  readonly #clocks: WakeClocks;
  /** The executions that could not be woken, and when to try again, by the monotonic clock. */
  readonly #retryAt = new Map<number, number>();
  #timer: ClockTimer | undefined;
  /** The time of `#timer`, by the monotonic clock. */
  #armedFor = Infinity;
  #isOpen = false;
  #isChecking = false;
  #stopWatching = (): void => {};

  constructor(parts: TimersParts) {
    this.#parts = parts;
    const { store, drives, clock } = parts;
    this.#clocks = new WakeClocks(clock, store.waits.clocks(), () => store.lastRow);
    store.waits.clock = this.#clocks;
    drives.nowOf = (row) => this.#clocks.nowOf(row);
  }

  /** Begins to wake executions. */
  open(): void {
    this.#isOpen = true;
    this.#stopWatching = this.#parts.clock.watchJumps?.(() => this.#onJump()) ?? (() => {});
    this.#check();
  }

  close(): void {
    this.#isOpen = false;
    this.#stopWatching();
    this.#parts.clock.clearTimeout(this.#timer);
  }

  /** A timer was committed. */
  added(): void {
    if (this.#isOpen && !this.#isChecking) this.#arm();
  }

  #onJump(): void {
    for (const { run } of this.#parts.drives.all()) run.time();
    this.#check();
  }

  #check(): void {
    if (!this.#isOpen || this.#isChecking) return;
    this.#isChecking = true;
    void this.#wakeAll();
  }

  async #wakeAll(): Promise<void> {
    const { sleepers, logger } = this.#parts;
    let ms = 0;
    try {
      for (let due = this.#findDue(); due.length > 0 && this.#isOpen; due = this.#findDue()) {
        await Promise.all(due.map((one) => this.#wake(one)));
        while (this.#isOpen && !sleepers.hasRoom) await this.#pause();
      }
    } catch (error) {
      if (!this.#isOpen) return;
      logger.error("The timers could not be read; they are read again soon", { error });
      ms = retryMs;
    }
    this.#isChecking = false;
    if (ms > 0) this.#armIn(ms);
    else this.#arm();
  }

  /** The next executions to wake, the first ones of each clock. */
  #findDue(): DueExecution[] {
    const { store, clock } = this.#parts;
    const now = clock.monotonic();
    for (const [number, time] of this.#retryAt) if (time <= now) this.#retryAt.delete(number);
    const due = new Map<number, DueExecution>();
    for (const id of this.#clocks.all()) {
      // Those that are tried again later are skipped: as many more are read.
      const found = store.waits.due(id, this.#clocks.now(id), maxWaking + this.#retryAt.size);
      if (found.length === 0 && store.waits.first(id) === undefined) this.#clocks.forget(id);
      for (const one of found) if (!this.#retryAt.has(one.number)) due.set(one.number, { ...one, clock: id });
    }
    return [...due.values()].slice(0, maxWaking);
  }

  async #wake(due: DueExecution): Promise<void> {
    const { store, sleepers, logger, clock, drives } = this.#parts;
    const { number } = due;
    try {
      await sleepers.wake(number);
      // A drive with a slot may end it soon; one that waits for its turn, later.
      if (this.#isOpen && store.waits.has(due.clock, due)) this.#retryAt.set(number, clock.monotonic() + againMs);
    } catch (error) {
      if (drives.isClosing || !this.#isOpen) return;
      this.#retryAt.set(number, clock.monotonic() + retryMs);
      if (error instanceof ServeError && error.status === 503) return; // its group is full, or the store
      logger.error("An execution could not be woken; it is tried again soon", { error });
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => this.#parts.clock.setTimeout(resolve, pauseMs));
  }

  /** Sets the process timer for the first timer of all clocks. */
  #arm(): void {
    if (!this.#isOpen) return;
    const { store, clock } = this.#parts;
    const max = 1 + this.#retryAt.size;
    let ms = Math.min(...this.#retryAt.values()) - clock.monotonic();
    for (const id of this.#clocks.all()) {
      const first = store.waits.due(id, Infinity, max).find(({ number }) => !this.#retryAt.has(number));
      if (first) ms = Math.min(ms, first.due - this.#clocks.now(id));
    }
    if (ms !== Infinity) this.#armIn(Math.max(0, ms));
  }

  #armIn(ms: number): void {
    const { clock } = this.#parts;
    const at = clock.monotonic() + ms;
    if (this.#timer && this.#armedFor <= at) return;
    clock.clearTimeout(this.#timer);
    this.#armedFor = at;
    const fire = (): void => {
      this.#timer = undefined;
      this.#armedFor = Infinity;
      this.#check();
    };
    this.#timer = clock.setTimeout(fire, Math.min(Math.ceil(ms), maxTimerMs)).unref();
  }
}

interface DueExecution extends DueTimer {
  readonly clock: number;
}

const maxWaking = 64;
const retryMs = 1_000;
const againMs = 100;
const pauseMs = 10;
