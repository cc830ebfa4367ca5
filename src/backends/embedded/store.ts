import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import type { Execution, ExecutionState, LifecycleEvent, ListFilter, Transition } from "../../engine/types.ts";

/** One row of the journal. */
export interface JournalRow {
  readonly key: string;
  readonly kind: RowKind;
  readonly at: number;
  readonly body: string | null;
  readonly events: string | null;
}
/**
 * `value`, `error`, `suspended`: how an entry ended. `moved`: a transition that the drive made. `signal`: one that somebody
 * else made. `events`: nothing but events.
 */
export type RowKind = "value" | "error" | "suspended" | "moved" | "signal" | "events";

/** A state, and the number under which the file keeps the execution. */
export interface StoredState extends ExecutionState {
  readonly number: number;
}

const format = 1;
// Executions have numbers, so that what is written together stands together: a commit costs by the pages it touches, and
// ids are random. Only the unique index on `id` is spread over the file.
const schema = `
  create table executions(
    number integer primary key, id text not null unique, workflow text not null, started integer not null,
    execution text not null, status text not null, epoch integer not null, last text, owes integer not null
  ) strict;
  create index executions_by_workflow on executions(workflow, started desc, id desc);
  create index executions_to_drive on executions(number) where status = 'running' or owes = 1;
  create table journal(
    n integer primary key, number integer not null, key text not null, kind text not null, at integer not null,
    body text, seq integer, events text
  ) strict;
  create index journal_by_number on journal(number, n);
`;
const state = "select number, execution, status, epoch, last from executions";

/** The file: its tables, and every statement on them. */
export class Store {
  readonly #db: DatabaseSync;
  readonly #statements: Record<keyof typeof statements, StatementSync>;

  constructor(path: string, durability: "normal" | "full") {
    if (path !== ":memory:") prepareFolder(dirname(path));
    this.#db = new DatabaseSync(path);
    this.#db.exec(`pragma journal_mode = wal; pragma synchronous = ${durability}; pragma busy_timeout = 5000`);
    const { user_version: found } = this.#db.prepare("pragma user_version").get() as { user_version: number };
    if (found > format)
      throw new Error(`${path} was written by a newer agentserve: its format is ${found}, not ${format}`);
    if (found === 0) this.#db.exec(`begin; ${schema} pragma user_version = ${format}; commit`);
    const prepared = Object.entries(statements).map(([name, sql]) => [name, this.#db.prepare(sql)]);
    this.#statements = Object.fromEntries(prepared) as Record<keyof typeof statements, StatementSync>;
  }

  /** All of it becomes durable, or none. */
  transaction<T>(work: () => T): T {
    this.#statements.open.run();
    try {
      const result = work();
      this.#statements.commit.run();
      return result;
    } catch (error) {
      this.#statements.rollback.run();
      throw error;
    }
  }

  /** The number of a new execution; undefined when there is one with this id already. */
  begin(execution: Execution): number | undefined {
    const { id, workflowId, startAt } = execution;
    const { changes, lastInsertRowid } = this.#statements.begin.run(id, workflowId, startAt, JSON.stringify(execution));
    return changes === 1 ? Number(lastInsertRowid) : undefined;
  }

  /** The compare-and-set on the number of the last transition. Who makes it from outside owes its event. */
  move(number: number, epoch: number, next: Transition, owes: boolean): boolean {
    return this.#statements.move.run(next.to, JSON.stringify(next), Number(owes), number, epoch).changes === 1;
  }

  /** The event of a transition from outside has been stored, and with it where the drive stood. */
  settle(number: number, epoch: number, last: Transition): void {
    this.#statements.settle.run(JSON.stringify(last), number, epoch);
  }

  add(number: number, row: Omit<JournalRow, "events">, events: readonly LifecycleEvent[]): void {
    const { key, kind, at, body } = row;
    const last = events.at(-1);
    this.#statements.add.run(number, key, kind, at, body, last?.seq ?? null, last ? JSON.stringify(events) : null);
  }

  state(id: string): StoredState | undefined {
    const row = this.#statements.find.get(id) as StateRow | undefined;
    return row && toState(row);
  }

  /** What a new process must drive: what was running, and what owes the event of its last transition. */
  toDrive(): StoredState[] {
    return rows<StateRow>(this.#statements.toDrive).map(toState);
  }

  list({ workflowId, status, limit, before }: ListFilter): StoredState[] {
    const values = [workflowId, status ?? null, before?.startAt ?? null, before?.id ?? null, limit];
    return rows<StateRow>(this.#statements.list, ...values).map(toState);
  }

  journal(number: number): JournalRow[] {
    return rows(this.#statements.journal, number);
  }

  events(id: string, afterSeq: number): LifecycleEvent[] {
    const found = rows<{ events: string }>(this.#statements.events, id, afterSeq);
    return found.flatMap(({ events }) => JSON.parse(events) as LifecycleEvent[]).filter(({ seq }) => seq > afterSeq);
  }

  lastSeq(number: number): number {
    return (this.#statements.lastSeq.get(number) as { seq: number | null }).seq ?? 0;
  }

  close(): void {
    this.#db.close();
  }
}

const statements = {
  open: "begin immediate",
  commit: "commit",
  rollback: "rollback",
  begin: `insert into executions(id, workflow, started, execution, status, epoch, owes)
    values(?, ?, ?, ?, 'running', 0, 0) on conflict do nothing`,
  move: "update executions set status = ?, last = ?, owes = ?, epoch = epoch + 1 where number = ? and epoch = ?",
  settle: "update executions set last = ?, owes = 0 where number = ? and epoch = ?",
  find: `${state} where id = ?`,
  toDrive: `${state} where status = 'running' or owes = 1 order by number`,
  list: `${state} where workflow = ?1 and (?2 is null or status = ?2) and (?3 is null or (started, id) < (?3, ?4))
    order by started desc, id desc limit ?5`,
  add: "insert into journal(number, key, kind, at, body, seq, events) values(?, ?, ?, ?, ?, ?, ?)",
  journal: "select key, kind, at, body, events from journal where number = ? order by n",
  lastSeq: "select max(seq) as seq from journal where number = ?",
  events: `select events from journal where number = (select number from executions where id = ?) and seq > ?
    order by n`,
};

/** All rows of a statement. What columns they have stands in its text above, where no compiler looks. */
function rows<T>(statement: StatementSync, ...values: SQLInputValue[]): T[] {
  return statement.all(...values) as unknown as T[];
}

/** Makes the folder of the file, and keeps it out of version control. */
function prepareFolder(folder: string): void {
  if (existsSync(folder)) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, ".gitignore"), "*\n");
}

interface StateRow {
  number: number;
  execution: string;
  status: ExecutionState["status"];
  epoch: number;
  last: string | null;
}

function toState({ number, execution, status, epoch, last }: StateRow): StoredState {
  return {
    number,
    execution: JSON.parse(execution),
    status,
    epoch,
    last: last === null ? undefined : JSON.parse(last),
  };
}
