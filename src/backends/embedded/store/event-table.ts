import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { EventFilter } from "../../../engine/execution.ts";
import type { SentEvent } from "../../../engine/sent-event.ts";

/** The events that were sent, for waits that begin later. Their numbers and those of executions are one sequence. */
export const eventTable = `
  create table events(
    number integer primary key, id text not null unique, name text not null, key text not null, at integer not null,
    user text, code integer not null, data text
  ) strict;
  create index events_by_name on events(name, key, number);
  create index events_by_time on events(at);`;

export interface StoredSentEvent extends SentEvent {
  readonly number: number;
  /** The time at which it was received. */
  readonly at: number;
}

/** An event without its data. */
export type SentHead = Pick<StoredSentEvent, "number" | "id" | "at" | "userId" | "isFromCode">;

/** The statements on the table of events. All writes run inside a transaction. */
export class EventTable {
  readonly #statements: Record<keyof typeof statements, StatementSync>;
  /** The number of events; undefined when it must be counted. */
  #count: number | undefined;

  constructor(db: DatabaseSync) {
    const prepared = Object.entries(statements).map(([name, sql]) => [name, db.prepare(sql)]);
    this.#statements = Object.fromEntries(prepared) as Record<keyof typeof statements, StatementSync>;
  }

  add(
    number: number,
    at: number,
    { id, name, key, userId = null, isFromCode, data = null }: Nullable<SentEvent>,
  ): void {
    this.#statements.add.run(number, id, name, key, at, userId, isFromCode ? 1 : 0, data);
    if (this.#count !== undefined) this.#count++;
  }

  find(id: string): StoredSentEvent | undefined {
    const row = this.#statements.find.get(id) as EventRow | undefined;
    return row && toEvent(row);
  }

  /** The events of a name and key after a number, oldest first. */
  after({ name, key = "" }: EventFilter, number: number, most: number): SentHead[] {
    return (this.#statements.after.all(name, key, number, most) as unknown as EventRow[]).map(toEvent);
  }

  /** The executions that wait for an event that is stored, in the order of their start. They may have refused it. */
  offers(after: number, most: number): number[] {
    return (this.#statements.offers.all(after, most) as { number: number }[]).map(({ number }) => number);
  }

  /** The number of events. */
  count(): number {
    this.#count ??= (this.#statements.count.get() as { count: number }).count;
    return this.#count;
  }
  /** A transaction was rolled back. */
  recount(): void {
    this.#count = undefined;
  }

  /** Removes events that are older than a time. Returns how many. */
  removeBefore(time: number, most: number): number {
    const removed = Number(this.#statements.removeBefore.run(time, most).changes);
    if (this.#count !== undefined) this.#count -= removed;
    return removed;
  }
}

type Nullable<T> = { [K in keyof T]: T[K] | null };
interface EventRow {
  number: number;
  id: string;
  name: string;
  key: string;
  at: number;
  user: string | null;
  code: 0 | 1;
  data: string | null;
}
const toEvent = ({ user, code, data, ...row }: EventRow): StoredSentEvent => ({
  ...row,
  userId: user ?? undefined,
  isFromCode: code === 1,
  data: data ?? undefined, // not selected with a head
});

// The casts of rows in this file: their types are those of the columns here, which the compiler cannot check.
const columns = "number, id, name, key, at, user, code, data";
const statements = {
  add: "insert into events(number, id, name, key, at, user, code, data) values(?, ?, ?, ?, ?, ?, ?, ?)",
  find: `select ${columns} from events where id = ?`,
  after: `select number, id, at, user, code from events where name = ? and key = ? and number > ? order by number limit ?`,
  offers: `select distinct number from event_waits as waits where number > ?
    and exists (select 1 from events where name = waits.name and key = waits.key) order by number limit ?`,
  count: "select count(*) as count from events",
  removeBefore: "delete from events where number in (select number from events where at < ? order by at limit ?)",
};
