import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { JsonText } from "../../../core/json.ts";
import { toEvent, toTransitionEvent, type EventBody, type StoredEvent } from "../../../engine/events.ts";
import { resolveTransition, type Execution, type ExecutionState, type Transition } from "../../../engine/execution.ts";
import { textOf, type JournalRow } from "../../../engine/runs/journal-row.ts";
import { firstEvent, type EventCursor, type EventPage } from "../../../engine/runs/read-events.ts";
import type { Change, Commit } from "../../../engine/runs/run.ts";
import { toText, type ReadRow } from "../../../engine/walk/value.ts";
import { fromEventText, toEventText } from "./event-text.ts";
import { DataFile } from "../file/data-file.ts";
import { ExecutionList } from "./execution-list.ts";
import { MessageStore } from "./message-store.ts";
import { migrate } from "./migrations.ts";
import { statements } from "./sql.ts";

/** A state with the number under which the file keeps the execution. */
export interface StoredState extends ExecutionState {
  readonly number: number;
}

/** An execution that was running when the last process ended. */
export interface LeftExecution {
  readonly number: number;
  readonly id: string;
  readonly workflowId: string;
  /** The crashes in a row, without a new row between them. */
  readonly crashes: number;
  /** The bytes of its input and of all values of its journal. */
  readonly bytes: number;
}

/** An execution in a list for its operator. */
export interface ListedExecution {
  readonly id: string;
  readonly workflowId: string;
  readonly status: ExecutionState["status"];
  readonly startAt: number;
  /** The reason of a suspension. */
  readonly reason: string | null;
}

/** The file: its tables and every statement on them. All writes go through `Writer`. */
export class Store {
  readonly messages: MessageStore;
  readonly list: ExecutionList;
  /** The format that the file had when it was opened; 0 if it was new. */
  readonly formerFormat: number;
  readonly #db: DatabaseSync;
  readonly #file: DataFile | undefined;
  readonly #statements: Record<keyof typeof statements, StatementSync>;
  #lastNumber: number;
  #lastRow: number;
  /** The numbers of the definitions that this process has read or written. */
  #definitions = new WeakMap<Execution["steps"], number>();

  constructor(path: string, durability: "normal" | "full") {
    this.#db = new DatabaseSync(path);
    try {
      // A wait inside SQLite would block every request, so there is none: the writer tries again by itself. A checkpoint
      // blocks as well: it runs when the log has 4 MB, so that each is short.
      this.#db.exec(`pragma busy_timeout = 0; pragma journal_mode = wal; pragma synchronous = ${durability};
        pragma wal_autocheckpoint = 1000; pragma journal_size_limit = 4194304`);
      this.formerFormat = migrate(this.#db, path);
      this.#file = path === ":memory:" ? undefined : new DataFile(path);
      const prepared = Object.entries(statements).map(([name, sql]) => [name, this.#db.prepare(sql)]);
      this.#statements = Object.fromEntries(prepared) as Record<keyof typeof statements, StatementSync>;
      this.messages = new MessageStore(this.#db);
      this.list = new ExecutionList(this.#db);
      this.#lastNumber = (this.#statements.lastNumber.get() as { number: number | null }).number ?? 0;
      this.#lastRow = (this.#statements.lastRow.get() as { n: number | null }).n ?? 0;
    } catch (error) {
      this.#db.close();
      throw error;
    }
  }

  /** False when the data file was deleted or replaced. */
  get isThere(): boolean {
    return this.#file?.isThere ?? true;
  }

  /** Writes two pages and changes nothing. Runs inside a transaction. */
  touch(): void {
    const { lastInsertRowid } = this.#statements.define.run(" ".repeat(8_192));
    this.#statements.removeDefinition.run(lastInsertRowid);
  }

  /** Runs the work in one transaction. */
  transaction<T>(work: () => T): T {
    this.#statements.beginTransaction.run();
    try {
      const result = work();
      this.#file?.check(); // a commit into a deleted file would succeed
      this.#statements.commit.run();
      return result;
    } catch (error) {
      this.#definitions = new WeakMap(); // some may have been written in this transaction
      if (this.#db.isTransaction) this.#statements.rollback.run(); // on a full disk SQLite has done so by itself
      throw error;
    }
  }

  /** Writes a change; undefined when another writer was first. Runs inside a transaction, and maybe twice. */
  save(state: StoredState, change: Change, readRow: ReadRow): Commit<StoredState> | undefined {
    const { number, execution } = state;
    const { row, epoch, seq } = change;
    const transitions = change.transitions.map((one) => resolveTransition(one, (value) => toText(value, readRow)));
    const events = [...change.events, ...transitions.filter(({ to }) => to !== "running").map(toTransitionEvent)];
    if (!row && !this.insertExecution(number, execution, events)) return undefined;
    const states: StoredState[] = [];
    for (const last of transitions) {
      const before = epoch + states.length;
      if (!this.move(number, before, last)) return undefined;
      states.push({ number, execution, status: last.to, epoch: before + 1, last });
    }
    if (row) this.add(number, row, seq, events);
    return { events, states };
  }

  newNumber(): number {
    return ++this.#lastNumber;
  }
  newRow(): number {
    return ++this.#lastRow;
  }

  /** Adds an execution; false when the id exists. */
  insertExecution(number: number, execution: Execution, events: readonly EventBody[]): boolean {
    const { id, workflowId, startAt, input, steps, userId = null, ...rest } = execution;
    const options = JSON.stringify(rest);
    const values = [id, workflowId, startAt, this.#define(steps), input, userId, options === none ? null : options];
    const { changes } = this.#statements.insertExecution.run(number, ...values, events.length, toEventText(events));
    return changes === 1;
  }

  #define(steps: Execution["steps"]): number {
    const known = this.#definitions.get(steps);
    if (known !== undefined) return known;
    const text = JSON.stringify(steps);
    const found = this.#statements.definition.get(text) as { definition: number } | undefined;
    const definition = found?.definition ?? Number(this.#statements.define.run(text).lastInsertRowid);
    this.#definitions.set(steps, definition);
    return definition;
  }

  /** Sets the definition that an execution continues on. */
  redefine(number: number, steps: Execution["steps"]): void {
    this.#statements.redefine.run(this.#define(steps), number);
  }

  /** Makes a transition: the compare-and-set on the epoch. */
  move(number: number, epoch: number, next: Transition): boolean {
    const ended = next.to === "completed" || next.to === "error" ? next.at : null;
    return this.#statements.move.run(next.to, JSON.stringify(next), ended, number, epoch).changes === 1;
  }

  /** Adds a row to a journal; `seq` is the number of its last event. */
  add(number: number, { id, key, kind, at, body }: JournalRow, seq: number, events: readonly EventBody[]): void {
    const text = events.length > 0 ? toEventText(events) : null;
    this.#statements.add.run(id, number, key, kind === "command" ? "signal" : kind, at, body, seq, text);
  }

  state(id: string): StoredState | undefined {
    const row = this.#statements.find.get(id) as StateRow | undefined;
    return row && toState(row);
  }

  /** Counts the crash of the last process for the executions that it left running, unless it was closed. Marks a new start. */
  startProcess(): void {
    this.transaction(() => {
      const last = this.#statements.lastProcess.get() as { clean: number } | undefined;
      if (last && !last.clean) this.#statements.countCrashes.run();
      this.#statements.endIsolation.run();
      this.#statements.startProcess.run();
    });
  }
  /** Marks that this process was closed, not killed. */
  endProcess(): void {
    this.#statements.endProcess.run();
  }

  /** The executions that the last process left running, in the order of their start. */
  /** The number of suspended executions of a workflow, up to `mostCounted`. */
  countSuspended(workflowId: string): number {
    return (this.#statements.suspended.get(workflowId) as { count: number }).count;
  }
  leftRunning(): LeftExecution[] {
    return rows<LeftExecution>(this.#statements.leftRunning);
  }
  /** Marks a suspect before it runs; see `Recovery`. */
  isolate(number: number): void {
    this.#statements.isolate.run(number);
  }

  /** The newest executions of all workflows. */
  newest(status: ExecutionState["status"] | undefined, limit: number): ListedExecution[] {
    return rows<ListedExecution>(this.#statements.newest, status ?? null, limit);
  }

  /** The rows of a journal, a page at a time. Other work of the process runs between two pages. */
  async *journal(number: number): AsyncGenerator<JournalRow[]> {
    for (let after = 0; ;) {
      const page = rows<JournalRow>(this.#statements.journal, number, after, pageRows);
      yield page;
      if (page.length < pageRows) return;
      after = page.at(-1)!.id;
      await nextTurn();
    }
  }

  /** The text of a long value. */
  text(number: number, row: number): JsonText | undefined {
    const found = this.#statements.row.get(row, number) as Pick<JournalRow, "kind" | "body"> | undefined;
    if (!found) throw new Error(`Row ${row} of the journal is missing`);
    return textOf(found);
  }

  /** The number of the last event of an execution. */
  lastSeq(number: number): number {
    return (this.#statements.lastSeq.get(number) as { seq: number }).seq;
  }

  /** The next events after a place in the journal, those of at most one page of rows; empty when there are no more. */
  events(id: string, after: EventCursor): EventPage {
    const execution = this.#statements.beginning.get(id) as (EventsRow & { number: number }) | undefined;
    if (!execution) return { events: [], last: after };
    const found = rows<EventsRow & { row: number }>(
      this.#statements.events,
      execution.number,
      after.row,
      after.seq,
      pageRows,
    );
    const row = found.at(-1)?.row ?? after.row;
    if (execution.seq > after.seq) found.unshift({ ...execution, row: 0 });
    const events = found.flatMap((one) => toEvents(id, one)).filter(({ seq }) => seq > after.seq);
    // A damaged file may have them in any order.
    return { events, last: { row, seq: events.reduce((most, { seq }) => Math.max(most, seq), after.seq) } };
  }

  /** All events of an execution, a page at a time. Other work of the process runs between two pages. */
  async *allEvents(id: string): AsyncGenerator<readonly StoredEvent[]> {
    for (let page = this.events(id, firstEvent); page.events.length > 0; page = this.events(id, page.last)) {
      yield page.events;
      await nextTurn();
    }
  }

  /**
   * Removes the executions that have expired, among the next `count`. Returns the number to continue after; undefined when all
   * later executions are younger.
   */
  sweep(after: number, { now, ended, suspended, isDriven }: Expiry, count: number): number | undefined {
    const found = rows<SweepRow>(this.#statements.oldest, after, count, suspended === undefined ? 0 : 1);
    for (const row of found) {
      const hasEnded = row.ended !== null && ended !== undefined && row.ended < ended;
      const hasWaited = row.suspended !== null && suspended !== undefined && row.suspended < suspended;
      if (!hasEnded && !(hasWaited && !isDriven(row.id))) continue;
      this.#statements.removeJournal.run(row.number);
      this.#statements.removeExecution.run(row.number);
    }
    const last = found.at(-1);
    if (!last) return undefined;
    // An execution that was started by a clock that was ahead says nothing about those after it.
    const isYoung = last.started >= Math.max(ended ?? 0, suspended ?? 0) && last.started <= now;
    return isYoung ? undefined : last.number;
  }

  /** The bytes that are in use, with those of the write-ahead log. Pages that were freed are used again. */
  usedBytes(): number {
    const { pages, free, size } = this.#statements.usage.get() as { pages: number; free: number; size: number };
    return (pages - free) * size + (this.#file?.logBytes ?? 0);
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }
}

/** The rows of a journal that are read at once. */
const pageRows = 1_000;

/** All rows of a statement. Their type is that of the columns in its text, which the compiler cannot check. */
function rows<T>(statement: StatementSync, ...values: SQLInputValue[]): T[] {
  return statement.all(...values) as unknown as T[];
}

/** The times before which executions have expired; undefined for never. */
export interface Expiry {
  readonly now: number;
  readonly ended: number | undefined;
  readonly suspended: number | undefined;
  readonly isDriven: (id: string) => boolean;
}
interface SweepRow {
  number: number;
  id: string;
  started: number;
  ended: number | null;
  suspended: number | null;
}

interface StateRow {
  number: number;
  id: string;
  workflow: string;
  started: number;
  steps: string;
  input: string;
  user: string | null;
  options: string | null;
  status: ExecutionState["status"];
  epoch: number;
  last: string | null;
}

function toState(row: StateRow): StoredState {
  const { number, id, workflow: workflowId, started: startAt, input, status, epoch, last } = row;
  const userId = row.user ?? undefined;
  const options = JSON.parse(row.options ?? none);
  const execution: Execution = { id, workflowId, startAt, input, userId, steps: JSON.parse(row.steps), ...options };
  return { number, execution, status, epoch, last: last === null ? undefined : JSON.parse(last) };
}
/** The options of an execution without conversation and context. */
const none = '{"context":{}}';

interface EventsRow {
  at: number;
  seq: number;
  events: string;
}

function toEvents(id: string, { at, seq, events }: EventsRow): StoredEvent[] {
  const bodies = fromEventText(events);
  return bodies.map((body, index) => toEvent(id, seq - bodies.length + 1 + index, at, body));
}
