import { type Clock, type ClockTimer, maxTimerMs } from "../core/clock.ts";
import { ServeError } from "../core/error.ts";
import { toIso } from "../core/iso-time.ts";
import type { Logger } from "../core/log.ts";
import type { Engine } from "../engine/contract/engine.ts";
import type { ScheduleStore, StoredSchedule } from "../engine/contract/schedules.ts";
import type { ScheduleDefinition } from "./define.ts";
import { Entry, lateMs, maxDue } from "./entry.ts";
import { RefusedStart, toPrefix, toTickId } from "./start.ts";

export interface SchedulerParts {
  readonly engine: Pick<Engine, "clock" | "list">;
  readonly store: ScheduleStore;
  readonly logger: Logger;
  /** False if ticks that were missed are not made up. */
  readonly catchesUp: boolean;
  /** Starts the execution of a tick, if the current version of the config has the schedule. */
  readonly start: (scheduleId: string, at: number) => Promise<void>;
}

/**
 * Starts the executions of the schedules at their times. Each replica has one.
 *
 * S1. An execution has the id of its tick, and a tick is stored as done after its execution: so it begins once, whatever
 *     crashes, and whichever replicas find it.
 * S2. A due tick is in memory until it is stored. If it cannot be started or stored now, it is tried again.
 * S3. What is stored decides: before each tick it is read whether the schedule is paused, or another replica was first.
 * S4. The ticks of one schedule are worked on one after the other.
 */
export class Scheduler {
  readonly #parts: SchedulerParts;
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();
  /** The schedules that were removed since the start. */
  readonly #removed = new Set<string>();
  #working = 0;
  #isOpen = false;
  #timer: ClockTimer | undefined;
  #stopWatching = (): void => {};

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
    this.#clock = parts.engine.clock;
  }

  /** Begins to start executions. The store is open. */
  open(schedules: Iterable<ScheduleDefinition>): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#stopWatching = this.#clock.watchJumps?.(() => this.#takeDue()) ?? (() => {});
    this.update(schedules);
    void this.#markRemoved();
  }

  close(): void {
    this.#isOpen = false;
    this.#stopWatching();
    this.#clock.clearTimeout(this.#timer);
  }

  /** Follows another version of the config. A schedule with the same times misses no tick and repeats none. */
  update(schedules: Iterable<ScheduleDefinition>): void {
    if (!this.#isOpen) return;
    const { catchesUp } = this.#parts;
    const now = this.#clock.now();
    const left = new Set(this.#entries.keys());
    for (const definition of schedules) {
      const { id, times } = definition;
      left.delete(id);
      const entry = this.#entries.get(id);
      if (entry?.definition.times.key === times.key) {
        entry.definition = definition;
        entry.workAt = now;
        continue;
      }
      const isChanged = this.#removed.delete(id) || entry !== undefined;
      this.#entries.set(id, new Entry(definition, now, { isChanged, catchesUp }));
    }
    for (const id of left) {
      this.#entries.delete(id);
      void this.#remove(id);
    }
    this.#takeDue();
  }

  /** Stores that a schedule was removed: when it comes back later, it does not make up the time without it. */
  async #remove(id: string): Promise<void> {
    const { store, logger } = this.#parts;
    this.#removed.add(id);
    for (let tries = 0; this.#isOpen && this.#removed.has(id); tries++) {
      try {
        await store.change(id, { times: "", missed: [], dropsHeld: true });
        return;
      } catch (error) {
        if (tries === 0) logger.warn(`Schedule ${id}: its removal cannot be stored. It is tried again`, { error });
        await this.#pause();
      }
    }
  }
  /** Stores the removal of schedules that were removed while no server ran. */
  async #markRemoved(): Promise<void> {
    while (this.#isOpen) {
      const all = await this.#parts.store.all().catch(() => undefined); // a store that fails says so itself
      if (!all) {
        await this.#pause();
        continue;
      }
      for (const { id, times } of all) if (times !== "" && !this.#entries.has(id)) void this.#remove(id);
      return;
    }
  }
  #pause(): Promise<void> {
    return new Promise((resolve) => this.#clock.setTimeout(resolve, maxDelayMs).unref());
  }

  /** Takes in the due ticks, works on their schedules, and sets the timer for the next time. */
  #takeDue(): void {
    if (!this.#isOpen) return;
    const now = this.#clock.now();
    let nextAt = Infinity;
    for (const entry of this.#entries.values()) {
      const leftOut = entry.takeDue(now);
      if (leftOut > 0)
        this.#parts.logger.warn(`Schedule ${entry.definition.id}: ${leftOut} ticks could not be started in time`);
      nextAt = Math.min(nextAt, entry.tickAt);
      if (entry.isBusy || !entry.hasWork) continue;
      if (entry.workAt > now) nextAt = Math.min(nextAt, entry.workAt);
      else if (this.#working < maxWorking) void this.#work(entry);
    }
    this.#clock.clearTimeout(this.#timer);
    if (nextAt === Infinity) return;
    const ms = Math.min(Math.max(1, nextAt - now), maxTimerMs);
    this.#timer = this.#clock.setTimeout(() => this.#takeDue(), ms).unref();
  }

  async #work(entry: Entry): Promise<void> {
    entry.isBusy = true;
    this.#working++;
    const working = this.#workOn(entry);
    this.#clock.hold?.(working);
    await working;
    this.#working--;
    entry.isBusy = false;
    this.#takeDue();
  }

  async #workOn(entry: Entry): Promise<void> {
    const { logger } = this.#parts;
    const { id } = entry.definition;
    const delay = (minMs: number): void => {
      entry.workAt = this.#clock.now() + Math.min(maxDelayMs, minMs * 2 ** Math.min(entry.tries++, 10));
    };
    try {
      let outcome = await this.#step(entry);
      for (; outcome === "more" && this.#isCurrent(entry); outcome = await this.#step(entry)) entry.tries = 0;
      entry.isWaiting = outcome === "waiting";
      if (entry.isWaiting) delay(1_000);
      else entry.tries = 0;
    } catch (error) {
      if (!this.#isOpen) return;
      const isKnown = error instanceof ServeError;
      const reason = isKnown ? error.message : "the store failed";
      if (entry.tries === 0)
        logger.warn(`Schedule ${id} cannot start an execution: ${reason}. It is tried again`, isKnown ? {} : { error });
      delay(500);
    }
  }
  #isCurrent(entry: Entry): boolean {
    return this.#isOpen && this.#entries.get(entry.definition.id) === entry;
  }

  /** Works on one tick: the oldest one that may start, or else the next one. */
  async #step(entry: Entry): Promise<"more" | "waiting" | "done"> {
    const stored = await this.#read(entry);
    const { definition } = entry;
    const now = this.#clock.now();
    if (stored.isPaused) {
      entry.due = [];
      entry.missed = [];
      return "done";
    }
    // Ticks that another replica started first. A time far ahead comes from a wrong clock.
    if (stored.doneAt <= now + lateMs) entry.due = entry.due.filter((at) => at > stored.doneAt);
    const { heldAt } = stored;
    const [live] = entry.due;
    const missedAt = entry.catchUpMs > 0 ? stored.missed?.[0] : undefined;
    const oldestAt = Math.min(heldAt ?? Infinity, missedAt ?? Infinity);
    const next = oldestAt < Infinity ? oldestAt : live;
    if (next === undefined) return "done";
    if (!(await this.#isTaken(definition, next))) {
      await this.#start(definition, next);
      entry.remove(next);
      return "more";
    }
    if (live === undefined) return "waiting";
    if (definition.overlap === "queue" && heldAt === undefined) await this.#hold(definition, live);
    else await this.#skip(definition, live);
    entry.remove(live);
    return "more";
  }

  /** Reads what is stored. New or changed times and missed ticks are stored before. */
  async #read(entry: Entry): Promise<StoredSchedule> {
    const { store } = this.#parts;
    const { id, times, overlap } = entry.definition;
    let stored = await store.find(id);
    if (stored?.times !== times.key || (entry.isChanged && !entry.isKnown))
      stored = await store.change(id, { times: times.key, doneAt: entry.since, missed: [], dropsHeld: true });
    const { missed: own } = entry;
    const missed = entry.isKnown ? own : [...missedBefore(entry, stored), ...own];
    if (missed.length > 0 && !stored.isPaused) {
      const all = [...new Set([...(stored.missed ?? []), ...missed])].toSorted((one, other) => one - other);
      const doneAt = Math.max(stored.doneAt, entry.isKnown ? 0 : entry.since);
      stored = await store.change(id, { doneAt, missed: all.slice(-maxDue) });
    }
    entry.missed = entry.missed.filter((at) => !own.includes(at)); // further ones may be due meanwhile
    entry.isKnown = true;
    const dropsHeld = stored.heldAt !== undefined && overlap !== "queue";
    return dropsHeld ? store.change(id, { dropsHeld }) : stored;
  }

  /** Returns true if another execution of the schedule has not ended, so that this tick may not start. */
  async #isTaken({ id, overlap }: ScheduleDefinition, at: number): Promise<boolean> {
    if (overlap === "allow") return false;
    const { states } = await this.#parts.engine.list({
      status: ["running", "suspended"],
      idPrefix: toPrefix(id),
      limit: 2,
    });
    return states.some(({ execution }) => execution.id !== toTickId(id, at));
  }

  async #start({ id }: ScheduleDefinition, at: number): Promise<void> {
    const { store, logger, start } = this.#parts;
    try {
      await start(id, at);
    } catch (error) {
      if (error instanceof RefusedStart)
        logger.error(`Schedule ${id} started no execution for ${toIso(at)}`, { error: error.cause });
      else if (!(error instanceof ServeError && error.status === 409)) throw error;
      // 409: it exists, from before a crash or from another replica, which may have stored it.
      else if (isStored(await store.find(id), at)) return;
    }
    await store.change(id, { tick: { at, isHeld: false } });
  }

  async #hold({ id }: ScheduleDefinition, at: number): Promise<void> {
    await this.#parts.store.change(id, { tick: { at, isHeld: true } });
  }

  async #skip({ id }: ScheduleDefinition, at: number): Promise<void> {
    const { store, logger } = this.#parts;
    logger.info(`Schedule ${id} left out ${toIso(at)}: an earlier execution has not ended`);
    await store.change(id, { tick: { at, isHeld: false } });
  }
}

/** The ticks that came while no server ran. */
function missedBefore({ definition, since, catchUpMs }: Entry, { doneAt }: StoredSchedule): number[] {
  return catchUpMs > 0 ? definition.times.last(maxDue, Math.max(doneAt, since - catchUpMs), since) : [];
}

const isStored = (stored: StoredSchedule | undefined, at: number): boolean =>
  stored !== undefined && stored.doneAt >= at && stored.heldAt !== at && !stored.missed?.includes(at);

/** Max schedules that are worked on at the same time. */
const maxWorking = 32;
/** The longest time until a tick is tried again, or until the earlier execution is checked again. */
const maxDelayMs = 10_000;
