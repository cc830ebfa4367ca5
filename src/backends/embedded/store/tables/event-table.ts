import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "../rows.ts";
import type { EventFilter } from "../../../../engine/execution.ts";
import { isSameEvent, senderOf, toSentId, type SentEvent, type Sending } from "../../../../engine/stored/sent-event.ts";

/**
 * The sent events, for later waits. An `id` is made by `toStoredId`. Their numbers and those of executions
 * are one sequence.
 */
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
  readonly #statements: Prepared<typeof statements>;
  /** The numbers of events; undefined when they must be counted. */
  #counts: EventCounts | undefined;

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db, statements);
  }

  add(
    number: number,
    at: number,
    { id, name, key, userId = null, isFromCode, data = null }: Nullable<SentEvent> & Pick<SentEvent, "id">,
  ): void {
    this.#statements.add.run(number, id, name, key, at, userId, isFromCode ? 1 : 0, data);
    this.#counts?.add({ id, code: isFromCode ? 1 : 0 }, 1);
  }

  find(id: string): StoredSentEvent | undefined {
    const row = this.#statements.find.get(id) as EventRow | undefined;
    return row && toEvent(row);
  }

  /**
   * Compares an event with the stored one of its id, or with the same event as stored by a version without senders.
   * Undefined: it is new.
   */
  compare(event: SentEvent): Exclude<Sending, "stored"> | undefined {
    const known = this.find(event.id);
    if (known) return isSameEvent(known, event) ? "known" : "conflict";
    const former = this.find(toSentId(event.id));
    return former && isSameEvent(former, event) ? "known" : undefined;
  }

  /** The events of a name and key after a number, oldest first. */
  after({ name, key = "" }: EventFilter, number: number, max: number): SentHead[] {
    return (this.#statements.after.all(name, key, number, max) as unknown as EventRow[]).map(toEvent);
  }

  /** The executions that wait for a stored event, in the order of their start. They may have refused it. */
  offers(after: number, max: number): number[] {
    return (this.#statements.offers.all(after, max) as { number: number }[]).map(({ number }) => number);
  }

  /** The event count of a sender, and of its side: code, or everyone else. */
  count({ id, isFromCode }: SentEvent): { own: number; side: number } {
    if (!this.#counts) {
      this.#counts = new EventCounts();
      for (const row of this.#statements.heads.iterate() as Iterable<unknown> as Iterable<CountedRow>)
        this.#counts.add(row, 1);
    }
    return { own: this.#counts.bySender.get(senderOf(id)) ?? 0, side: this.#counts.sides[isFromCode ? 1 : 0] };
  }
  /** A transaction was rolled back. */
  recount(): void {
    this.#counts = undefined;
  }

  /** Removes events that are older than a time. Returns how many. */
  removeBefore(time: number, max: number): number {
    const removed = this.#statements.removeBefore.all(time, max) as unknown as CountedRow[];
    for (const row of removed) this.#counts?.add(row, -1);
    return removed.length;
  }
}

type CountedRow = Pick<EventRow, "id" | "code">;

/** The numbers of events, at most one entry for each. */
class EventCounts {
  readonly bySender = new Map<string, number>();
  /** The events of callers, and of code. */
  readonly sides: [number, number] = [0, 0];

  add({ id, code }: CountedRow, change: 1 | -1): void {
    const sender = senderOf(id);
    const count = (this.bySender.get(sender) ?? 0) + change;
    if (count === 0) this.bySender.delete(sender);
    else this.bySender.set(sender, count);
    this.sides[code] += change;
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

// The casts of rows in this file: their types repeat the columns here, which the compiler cannot check.
const columns = "number, id, name, key, at, user, code, data";
const statements = {
  add: "insert into events(number, id, name, key, at, user, code, data) values(?, ?, ?, ?, ?, ?, ?, ?)",
  find: `select ${columns} from events where id = ?`,
  after: `select number, id, at, user, code from events where name = ? and key = ? and number > ? order by number limit ?`,
  offers: `select distinct number from event_waits as waits where number > ?
    and exists (select 1 from events where name = waits.name and key = waits.key) order by number limit ?`,
  heads: "select id, code from events",
  removeBefore:
    "delete from events where number in (select number from events where at < ? order by at limit ?) returning id, code",
};
