import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "../rows.ts";
import type { EventFilter, Transition } from "../../../../engine/execution.ts";
import type { NextTimes } from "../../../../engine/runs/run-port.ts";

/**
 * The waits of executions without a drive: `timers` by their end, `event_waits` by the event.
 *
 * `clock` is 0 for dates. A duration has the clock number of its commit (`WakeClocks`). An execution has at most one timer
 * for each clock: its first wait.
 */
export const waitTables = `
  create table timers(clock integer not null, due integer not null, number integer not null, primary key(clock, due, number))
    strict, without rowid;
  create index timers_by_number on timers(number);
  create table event_waits(name text not null, key text not null, number integer not null, primary key(name, key, number))
    strict, without rowid;
  create index event_waits_by_number on event_waits(number);`;

export interface DueTimer {
  readonly number: number;
  readonly due: number;
}

/** An execution that rests, and its group. */
export interface RestingPlace {
  readonly number: number;
  readonly workflowId: string;
  readonly key: string;
}

/** The clock by which durations are stored. */
export interface StoredClock {
  toStored(monotonic: number): { readonly clock: number; readonly due: number };
}

/** The statements on the tables of waits. All writes run inside a transaction. */
export class WaitTable {
  /** Set by the timers of a server. Without them, durations are stored as dates. */
  clock: StoredClock | undefined;
  readonly #statements: Prepared<typeof statements>;

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db, statements);
  }

  /** Keeps the waits of a suspension. */
  add(number: number, { wake = [], events = [] }: Transition & { to: "suspended" }, times: NextTimes = {}): void {
    const dates = this.clock ? [] : wake.map(({ at }) => at);
    for (const due of dates) this.#statements.addTimer.run(0, due, number);
    if (this.clock) this.#addTimes(number, times);
    this.#addEvents(number, events);
  }

  /** Keeps the times and the events of an execution that is running, and waits. */
  rest(number: number, times: NextTimes, events: readonly EventFilter[]): void {
    this.remove(number);
    this.#addTimes(number, times);
    this.#addEvents(number, events);
  }

  #addTimes(number: number, { elapsed, date }: NextTimes): void {
    if (date !== undefined) this.#statements.addTimer.run(0, date, number);
    if (elapsed === undefined) return;
    const { clock, due } = this.clock!.toStored(elapsed);
    this.#statements.addTimer.run(clock, due, number);
  }

  #addEvents(number: number, events: readonly EventFilter[]): void {
    for (const { name, key = "" } of events) this.#statements.addEvent.run(name, key, number);
  }

  remove(number: number): void {
    this.#statements.removeTimers.run(number);
    this.#statements.removeEvents.run(number);
  }

  /** The first timers of a clock that end by a time. */
  due(clock: number, now: number, max: number): DueTimer[] {
    return this.#statements.due.all(clock, now, max) as unknown as DueTimer[];
  }

  /** The end of the first timer on a clock. */
  first(clock: number): number | undefined {
    return (this.#statements.first.get(clock) as { due: number | null }).due ?? undefined;
  }

  /** The clocks that have timers. */
  clocks(): number[] {
    return (this.#statements.clocks.all() as { clock: number }[]).map(({ clock }) => clock);
  }

  /** True if a timer is still there. */
  has(clock: number, { due, number }: DueTimer): boolean {
    return this.#statements.has.get(clock, due, number) !== undefined;
  }

  hasTimer(number: number): boolean {
    return this.#statements.hasTimer.get(number) !== undefined;
  }

  /** True if an execution of a workflow runs and waits. Only the newest executions are looked at. */
  hasResting(workflowId: string): boolean {
    return this.#statements.hasResting.get(workflowId) !== undefined;
  }

  /** The executions that run and wait, and have a place in a group. */
  places(): RestingPlace[] {
    return this.#statements.places.all() as unknown as RestingPlace[];
  }

  /** The executions that wait for an event, in the order of their start, a page at a time. */
  waiting({ name, key = "" }: Pick<EventFilter, "name" | "key">, after: number, max: number): number[] {
    return (this.#statements.waiting.all(name, key, after, max) as { number: number }[]).map(({ number }) => number);
  }
}

// The casts of rows in this file: their types repeat the columns here, which the compiler cannot check.
const statements = {
  addTimer: "insert or ignore into timers(clock, due, number) values(?, ?, ?)",
  addEvent: "insert or ignore into event_waits(name, key, number) values(?, ?, ?)",
  removeTimers: "delete from timers where number = ?",
  removeEvents: "delete from event_waits where number = ?",
  due: "select number, due from timers where clock = ? and due <= ? order by due, number limit ?",
  first: "select min(due) as due from timers where clock = ?",
  clocks: `with recursive found(clock) as (
      select min(clock) from timers
      union all select (select min(clock) from timers where clock > found.clock) from found where clock is not null
    ) select clock from found where clock is not null`,
  has: "select 1 from timers where clock = ? and due = ? and number = ?",
  hasTimer: "select 1 from timers where number = ? limit 1",
  // A bounded number of rows: other requests wait meanwhile.
  hasResting: `select 1 from (
      select number, workflow from executions where status = 'running' order by number desc limit 1000
    ) as newest where workflow = ? and exists (select 1 from timers where timers.number = newest.number) limit 1`,
  places: `select number, workflow as workflowId, options ->> '$.concurrencyKey' as key from executions
    where status = 'running' and options -> '$.concurrencyKey' is not null
      and exists (select 1 from timers where timers.number = executions.number)`,
  waiting: "select number from event_waits where name = ? and key = ? and number > ? order by number limit ?",
};
