import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "../rows.ts";
import { changeSchedule, type ScheduleChange, type StoredSchedule } from "../../../../engine/contract/schedules.ts";

/** The state of the schedules, apart from their executions. */
export const scheduleTable = `
  create table schedules(
    id text primary key, times text not null, done integer not null, last integer, held integer,
    missed text not null, paused integer not null
  ) strict, without rowid;`;

/** The statements on schedules. All writes run inside a transaction. */
export class ScheduleTable {
  readonly #statements: Prepared<typeof statements>;

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db, statements);
  }

  all(): StoredSchedule[] {
    return (this.#statements.all.all() as unknown as ScheduleRow[]).map(fromRow); // the columns of the table
  }
  find(id: string): StoredSchedule | undefined {
    const row = this.#statements.find.get(id) as ScheduleRow | undefined;
    return row && fromRow(row);
  }
  change(id: string, change: ScheduleChange): StoredSchedule {
    const changed = changeSchedule(id, this.find(id), change);
    const { times, doneAt, lastAt, heldAt, missed = [], isPaused } = changed;
    const last = lastAt ?? null;
    const held = heldAt ?? null;
    this.#statements.put.run(id, times, doneAt, last, held, JSON.stringify(missed), Number(isPaused));
    return changed;
  }
}

interface ScheduleRow {
  readonly id: string;
  readonly times: string;
  readonly done: number;
  readonly last: number | null;
  readonly held: number | null;
  /** JSON. */
  readonly missed: string;
  readonly paused: number;
}
const fromRow = ({ id, times, done, last, held, missed, paused }: ScheduleRow): StoredSchedule => ({
  id,
  times,
  doneAt: done,
  isPaused: paused === 1,
  missed: JSON.parse(missed) as number[], // as `change` wrote it
  ...(last !== null && { lastAt: last }),
  ...(held !== null && { heldAt: held }),
});

const statements = {
  all: "select * from schedules",
  find: "select * from schedules where id = ?",
  put: `insert or replace into schedules(id, times, done, last, held, missed, paused)
    values(?, ?, ?, ?, ?, ?, ?)`,
};
