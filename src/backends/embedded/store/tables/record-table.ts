import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "../rows.ts";
import type { JsonText } from "../../../../core/json.ts";

/** The results that attempts in flight have recorded. Their numbers are journal row numbers: a record is progress as well. */
export const recordTable = `
  create table records(
    n integer primary key, number integer not null, key text not null, name text not null, body text not null
  ) strict;
  create index records_by_number on records(number);`;

/** The statements on records of attempts. All writes run inside a transaction. */
export class RecordTable {
  readonly #statements: Prepared<typeof statements>;

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db, statements);
  }

  /** The records of an attempt, by name. */
  read(number: number, key: string): Map<string, JsonText> {
    const rows = this.#statements.read.all(number, key) as { name: string; body: JsonText }[];
    return new Map(rows.map(({ name, body }) => [name, body]));
  }
  /** Adds a record. False if its execution is gone. */
  add(n: number, number: number, key: string, name: string, text: JsonText): boolean {
    return this.#statements.add.run(n, number, key, name, text).changes === 1;
  }
  /** Removes the records of an attempt. */
  remove(number: number, key: string): void {
    this.#statements.remove.run(number, key);
  }
  /** Removes all records of an execution. */
  removeAll(number: number): void {
    this.#statements.removeAll.run(number);
  }
}

const statements = {
  read: "select name, body from records where number = ? and key = ? order by n",
  // A turn whose conversation was deleted in the same transaction is gone.
  add: `insert into records(n, number, key, name, body) select ?1, ?2, ?3, ?4, ?5
    where exists (select 1 from executions where number = ?2) on conflict do nothing`,
  remove: "delete from records where number = ? and key = ?",
  removeAll: "delete from records where number = ?",
};
