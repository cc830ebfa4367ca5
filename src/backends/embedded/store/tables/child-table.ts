import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "../rows.ts";

/** The children that are cancelled with their parents, by number. */
export const childTable = `
  create table children(number integer primary key, parent integer not null) strict;
  create index children_by_parent on children(parent);`;

/** The statements on children that are cancelled with their parents. All writes run inside a transaction. */
export class ChildTable {
  readonly #statements: Prepared<typeof statements>;

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db, statements);
  }

  /** Adds a child. Returns false when its parent was cancelled, or is gone. */
  add(number: number, parentId: string): boolean {
    return this.#statements.add.run(number, parentId).changes === 1;
  }
  remove(number: number): void {
    this.#statements.remove.run(number);
  }

  /** The open children of cancelled parents, with the reasons; of one parent, or all. */
  left(parentId?: string): { readonly id: string; readonly reason: string }[] {
    const { left, leftOf } = this.#statements;
    return (parentId === undefined ? left.all() : leftOf.all(parentId)) as { id: string; reason: string }[];
  }
}

const isCancelled = "status = 'error' and json_extract(last, '$.cancellation') is not null";
const left = `select child.id, json_extract(parent.last, '$.cancellation.reason') as reason
  from children join executions as child using (number) join executions as parent on parent.number = children.parent
  where child.ended is null and parent.status = 'error' and json_extract(parent.last, '$.cancellation') is not null`;
const statements = {
  add: `insert into children(number, parent) select ?, number from executions where id = ? and not (${isCancelled})`,
  remove: "delete from children where number = ?",
  left,
  leftOf: `${left} and children.parent = (select number from executions where id = ?)`,
};
