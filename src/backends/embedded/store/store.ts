import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import { attempt } from "../../../core/attempt.ts";
import { notFound, ServeError } from "../../../core/error.ts";
import type { JsonText } from "../../../core/json.ts";
import {
  toEvent,
  toTransitionEvent,
  type CopiedEvent,
  type EventBody,
  type StoredEvent,
} from "../../../engine/events.ts";
import {
  isRetry,
  resolveTransition,
  type Execution,
  type ExecutionState,
  type Transition,
} from "../../../engine/execution.ts";
import type { HistoryRow } from "../../../engine/contract/history.ts";
import { textOf, type JournalRow } from "../../../engine/runs/journal-row.ts";
import { firstEvent, type EventCursor, type EventPage } from "../../../engine/runs/read-events.ts";
import type { Change, Copy } from "../../../engine/runs/run-port.ts";
import { isTurn } from "../../../engine/turn-execution.ts";
import { toText, type ReadRow } from "../../../engine/walk/value.ts";
import { fromEventText, toEventText } from "./tables/event-text.ts";
import { DataFile } from "../file/data-file.ts";
import { ExecutionList } from "./execution-list.ts";
import type { ConversationTable } from "./tables/conversation-table.ts";
import { MessageStore } from "./message-store.ts";
import { migrate } from "./migrations.ts";
import { ChildTable } from "./tables/child-table.ts";
import { RecordTable } from "./tables/record-table.ts";
import { UsageTable } from "./tables/usage-table.ts";
import { ScheduleTable } from "./tables/schedule-table.ts";
import { EventTable } from "./tables/event-table.ts";
import { statements } from "./sql.ts";
import { WaitTable } from "./tables/wait-table.ts";
import { afterTransition, isEnd } from "../../../engine/rules/transitions.ts";

/** A change as it was committed. */
export interface Commit {
  readonly events: readonly EventBody[];
  /** The states that the transitions led to, in order. */
  readonly states: readonly StoredState[];
}

/** A state with the number under which the file keeps the execution. */
export interface StoredState extends ExecutionState {
  readonly number: number;
}

/** An execution that is running and has no run. */
export interface LeftExecution {
  readonly number: number;
  readonly id: string;
  readonly workflowId: string;
  /** The crashes in a row, without a new row between them. */
  readonly crashes: number;
  /** The bytes of its input and of all values of its journal. */
  readonly bytes: number;
  readonly concurrencyKey: string | undefined;
  /** True if it only waits for its turn: none of its code has run since its start or its last resume. */
  readonly isWaiting: boolean;
}
interface LeftRow extends Omit<LeftExecution, "concurrencyKey" | "isWaiting"> {
  readonly concurrencyKey: string | null;
  readonly isWaiting: 0 | 1;
}

/** An execution in a list for its operator. */
export interface ListedExecution {
  readonly id: string;
  readonly workflowId: string;
  readonly status: ExecutionState["status"];
  readonly startAt: number;
  readonly endAt: number | null;
  /** The reason of a suspension. */
  readonly reason: string | null;
  /** The message of a failure. */
  readonly error: string | null;
  /** The reason of a cancel. */
  readonly cancelled: string | null;
}
export interface NewestFilter {
  readonly statuses?: readonly ExecutionState["status"][] | undefined;
  readonly workflowId?: string | undefined;
  readonly userId?: string | undefined;
  /** The beginning of the id. */
  readonly idPrefix?: string | undefined;
  readonly limit: number;
}

/** The file: its tables and every statement on them. All writes go through `Writer`. */
export class Store {
  readonly messages: MessageStore;
  readonly conversations: ConversationTable;
  readonly list: ExecutionList;
  readonly waits: WaitTable;
  readonly children: ChildTable;
  readonly records: RecordTable;
  readonly schedules: ScheduleTable;
  readonly sentEvents: EventTable;
  readonly usage: UsageTable;
  /** The format that the file had when it was opened; 0 if it was new. */
  readonly formerFormat: number;
  readonly #db: DatabaseSync;
  readonly #file: DataFile | undefined;
  readonly #statements: Record<keyof typeof statements, StatementSync>;
  #lastNumber: number;
  /** The last number when the file was opened. */
  readonly #lastBefore: number;
  #lastRow: number;
  /** The numbers of the definitions that this process has read or written. */
  #definitions = new WeakMap<Execution["steps"], number>();

  constructor(path: string, durability: "normal" | "full") {
    this.#db = new DatabaseSync(path);
    try {
      // A wait inside SQLite would block every request, so there is none: the writer tries again by itself. A checkpoint
      // blocks as well: it runs when the log has 4 MB, so that each is short. Texts that are deleted are overwritten.
      this.#db.exec(`pragma busy_timeout = 0; pragma journal_mode = wal; pragma synchronous = ${durability};
        pragma wal_autocheckpoint = 1000; pragma journal_size_limit = 4194304; pragma secure_delete = on`);
      this.formerFormat = migrate(this.#db, path);
      this.#file = path === ":memory:" ? undefined : new DataFile(path);
      const prepared = Object.entries(statements).map(([name, sql]) => [name, this.#db.prepare(sql)]);
      this.#statements = Object.fromEntries(prepared) as Record<keyof typeof statements, StatementSync>;
      this.messages = new MessageStore(this.#db);
      this.conversations = this.messages.conversations;
      this.list = new ExecutionList(this.#db);
      this.waits = new WaitTable(this.#db);
      this.children = new ChildTable(this.#db);
      this.records = new RecordTable(this.#db);
      this.schedules = new ScheduleTable(this.#db);
      this.sentEvents = new EventTable(this.#db);
      this.usage = new UsageTable(this.#db);
      this.#lastNumber = (this.#statements.lastNumber.get() as { number: number | null }).number ?? 0;
      this.#lastBefore = this.#lastNumber;
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
      this.sentEvents.recount();
      if (this.#db.isTransaction) this.#statements.rollback.run(); // on a full disk SQLite has done so by itself
      throw error;
    }
  }

  /** Writes a change; undefined when another writer was first. Runs inside a transaction, and maybe twice. */
  save(state: StoredState, change: Change, readRow: ReadRow): Commit | undefined {
    const { number, execution } = state;
    const { row, epoch, seq } = change;
    const transitions = change.transitions.map((one) => resolveTransition(one, (value) => toText(value, readRow)));
    const events = [...change.events, ...transitions.filter(({ to }) => to !== "running").map(toTransitionEvent)];
    if (!row && !this.insertExecution(number, execution, events, change.copied)) return undefined;
    for (const copy of change.copies ?? [])
      if (!this.#copy(number, copy, seq)) throw notFound(`Execution ${execution.fork?.from} not found`);
    const states: StoredState[] = [];
    for (const last of transitions) {
      const before = states.at(-1) ?? { ...state, epoch };
      if (!this.move(number, before.epoch, last)) return undefined;
      states.push(afterTransition(before, last));
    }
    for (const one of change.joined ?? []) this.add(number, one, seq - events.length, []);
    if (row) this.add(number, row, seq, events);
    if (row?.hasRecords) this.records.remove(number, row.key);
    const last = states.at(-1)?.last;
    // A change before this one may be part of the same transaction.
    if (last && (hasWaits(state.last) || state.epoch !== epoch)) this.waits.remove(number);
    if (last?.to === "suspended" && hasWaits(last)) this.waits.add(number, last, change.times);
    // The answer of a turn is in its conversation.
    if (last && isEnd(last.to) && isTurn(execution)) this.#remove(number);
    return { events, states };
  }

  /** Removes an execution that has no waits. */
  #remove(number: number): void {
    this.#statements.removeJournal.run(number);
    this.#statements.removeExecution.run(number);
    this.children.remove(number);
    this.records.removeAll(number);
  }

  /** Removes a turn, and everything that it has recorded. False if there is no turn with this id. */
  removeTurn(id: string): boolean {
    const found = this.#statements.findTurn.get(id) as { number: number } | undefined;
    if (found) this.#remove(found.number);
    return found !== undefined;
  }

  newNumber(): number {
    return ++this.#lastNumber;
  }
  newRow(): number {
    return ++this.#lastRow;
  }
  /** The number of the last row, written or not. */
  get lastRow(): number {
    return this.#lastRow;
  }

  /** Adds an execution; false when the id exists. */
  insertExecution(
    number: number,
    execution: Execution,
    events: readonly EventBody[],
    copied?: readonly CopiedEvent[],
  ): boolean {
    const { id, workflowId, startAt, input, steps, userId = null, ...rest } = execution;
    const options = JSON.stringify(rest);
    const values = [id, workflowId, startAt, this.#define(steps), input, userId, options === none ? null : options];
    const texts = [toEventText(events), copied ? JSON.stringify(copied) : null];
    const { changes } = this.#statements.insertExecution.run(number, ...values, events.length, ...texts);
    if (changes === 0) return false;
    const { parent } = execution;
    if (parent?.cancels && !this.children.add(number, parent.id))
      throw new ServeError(409, `Execution ${parent.id} was cancelled`);
    return true;
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
    const last = JSON.stringify(next);
    if (isRetry(next)) {
      const by = next.by ? JSON.stringify(next.by) : null;
      this.children.remove(number); // from now on it is independent of a parent that was cancelled
      return this.#statements.retry.run(last, by, number, epoch).changes === 1;
    }
    const ended = isEnd(next.to) ? next.at : null;
    return this.#statements.move.run(next.to, last, ended, number, epoch).changes === 1;
  }

  /** Adds a row to a journal; `seq` is the number of its last event. */
  add(number: number, { id, key, kind, at, body }: JournalRow, seq: number, events: readonly EventBody[]): void {
    const text = events.length > 0 ? toEventText(events) : null;
    this.#statements.add.run(id, number, key, kind === "command" ? "signal" : kind, at, body, seq, text);
  }

  /** Adds a row of a fork, copied from the row of the original; false when that was removed meanwhile. */
  #copy(number: number, { row: { id, key }, original, copied }: Copy, seq: number): boolean {
    return this.#statements.copy.run(id, number, key, seq, JSON.stringify(copied), original).changes === 1;
  }

  state(id: string): StoredState | undefined {
    const row = this.#statements.find.get(id) as StateRow | undefined;
    return row && toState(row);
  }
  stateOf(number: number): StoredState | undefined {
    const row = this.#statements.findNumber.get(number) as StateRow | undefined;
    return row && toState(row);
  }

  /** Counts the crash of the last process for the executions that it left running, unless it was closed. Marks a new start. */
  startProcess(): void {
    this.transaction(() => {
      const last = this.#statements.lastProcess.get() as { clean: number } | undefined;
      if (last && !last.clean) {
        const suspect = this.#statements.lastSuspect.get() as { last: number | null };
        this.#statements.countCrashes.run(suspect.last);
      }
      this.#statements.endIsolation.run();
      this.#statements.startProcess.run();
    });
  }
  /** Marks that this process was closed, not killed. */
  endProcess(): void {
    this.#statements.endProcess.run();
  }

  /** The number of suspended executions of a workflow, up to `mostCounted`. */
  countSuspended(workflowId: string): number {
    return (this.#statements.suspended.get(workflowId) as { count: number }).count;
  }
  /** The executions that the last process left running, in the order of their start. Other work runs between two pages. */
  async *leftRunning(): AsyncGenerator<LeftExecution[]> {
    for (let after = 0; ;) {
      const page = rows<LeftRow>(this.#statements.leftRunning, after, this.#lastBefore, pageRows);
      yield page.map(({ concurrencyKey: key, isWaiting, ...row }) => {
        return { ...row, concurrencyKey: key === null ? undefined : JSON.parse(key), isWaiting: isWaiting === 1 };
      });
      if (page.length < pageRows) return;
      after = page.at(-1)!.number;
      await nextTurn();
    }
  }
  /** Marks the nth suspect of this process before it runs; see `Recovery`. */
  isolate(number: number, n: number): void {
    this.#statements.isolate.run(n, number);
  }
  /** Marks an execution that waits for its turn. The next transition removes the mark as well. */
  startWaiting(number: number): void {
    this.#statements.startWaiting.run(number);
  }
  endWaiting(number: number): void {
    this.#statements.endWaiting.run(number);
  }

  /** Marks an execution whose code waits for other executions. The next transition removes the mark as well. */
  startAbsence(number: number): void {
    this.#statements.startAbsence.run(number);
  }
  endAbsence(number: number): void {
    this.#statements.endAbsence.run(number);
  }

  /** The newest executions of all workflows. */
  newest({ statuses, workflowId, userId, idPrefix, limit }: NewestFilter): ListedExecution[] {
    const status = statuses ? `,${statuses.join()},` : null;
    const { newest } = this.#statements;
    return rows<ListedExecution>(newest, status, workflowId ?? null, userId ?? null, idPrefix ?? null, limit);
  }

  /** The rows of a journal, a page at a time. Other work of the process runs between two pages. */
  journal(number: number): AsyncGenerator<JournalRow[]> {
    return this.#pages<JournalRow>(this.#statements.journal, number);
  }

  /** The rows of a journal with their events, a page at a time; the first one is the start. */
  async *history(id: string): AsyncGenerator<HistoryRow[]> {
    const start = this.#statements.beginning.get(id) as (EventsRow & CopiedColumn & { number: number }) | undefined;
    if (!start) return;
    yield [{ row: undefined, at: start.at, events: fromEventText(start.events), copied: toCopied(start) }];
    for await (const page of this.#pages<StoredHistoryRow>(this.#statements.history, start.number))
      // A copy of each row without its events would take a tenth of the time of a request for steps.
      yield page.map((row) => {
        const events = row.events === null ? [] : fromEventText(row.events);
        return { row, at: row.at, events, copied: toCopied(row) };
      });
  }

  async *#pages<Row extends JournalRow>(statement: StatementSync, number: number): AsyncGenerator<Row[]> {
    for (let after = 0; ;) {
      const page = rows<Row>(statement, number, after, journalPageRows);
      yield page;
      if (page.length < journalPageRows) return;
      after = page.at(-1)!.id;
      await nextTurn();
    }
  }

  /** The number of an execution. Its state has values of any size, and is not read for this. */
  numberOf(id: string): number | undefined {
    return (this.#statements.beginning.get(id) as { number: number } | undefined)?.number;
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

  /** Removes the executions that have expired, among the next `count`. */
  sweep(after: number, { now, ended, suspended, isDriven }: Expiry, count: number): Swept {
    const found = rows<SweepRow>(this.#statements.oldest, after, count, suspended === undefined ? 0 : 1);
    const waited: string[] = [];
    for (const row of found) {
      const hasEnded = row.ended !== null && ended !== undefined && row.ended < ended;
      const hasWaited = row.suspended !== null && suspended !== undefined && row.suspended < suspended;
      if (!hasEnded && !(hasWaited && !isDriven(row.id))) continue;
      if (!hasEnded) this.waits.remove(row.number);
      this.#remove(row.number);
      if (!hasEnded) waited.push(row.id);
    }
    const last = found.at(-1);
    if (!last) return { next: undefined, waited };
    // An execution that was started by a clock that was ahead says nothing about those after it.
    const isYoung = last.started >= Math.max(ended ?? 0, suspended ?? 0) && last.started <= now;
    return { next: isYoung ? undefined : last.number, waited };
  }

  /**
   * Returns true if the file and its write-ahead log have this many bytes. Pages that were freed are used again. SQLite
   * shortens a long log at the next write, which a full store refuses: so the log is emptied here if it is the reason.
   */
  hasBytes(count: number): boolean {
    const { pages, free, size } = this.#statements.usage.get() as { pages: number; free: number; size: number };
    const left = count - (pages - free) * size;
    const isOver = (): boolean => (this.#file?.logBytes ?? 0) >= left;
    if (left > 0 && isOver()) attempt(() => this.#db.exec("pragma wal_checkpoint(truncate)"));
    return isOver();
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }
}

/** Whether an execution waits for a time or an event. */
const hasWaits = (last: Transition | undefined): boolean =>
  last?.to === "suspended" && (last.wake !== undefined || last.events !== undefined);

/** The rows that are read at once. */
const pageRows = 1_000;
/** The rows of a journal that are read at once. A replay decides about each of them, in code that a new process has not compiled yet. */
const journalPageRows = 250;

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
export interface Swept {
  /** The number to continue after; undefined when all later executions are younger. */
  readonly next: number | undefined;
  /** The ids of the suspended executions that were removed. */
  readonly waited: readonly string[];
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
  retried: string | null;
}

function toState(row: StateRow): StoredState {
  const { number, id, workflow: workflowId, started: startAt, input, status, epoch, last } = row;
  const userId = row.user ?? undefined;
  const options = JSON.parse(row.options ?? none);
  const execution: Execution = { id, workflowId, startAt, input, userId, steps: JSON.parse(row.steps), ...options };
  const retriedBy = row.retried === null ? undefined : JSON.parse(row.retried);
  return { number, execution, status, epoch, last: last === null ? undefined : JSON.parse(last), retriedBy };
}

/** The options of an execution without conversation and context. */
const none = '{"context":{}}';

interface CopiedColumn {
  copied: string | null;
}
interface StoredHistoryRow extends JournalRow, CopiedColumn {
  events: string | null;
}
const toCopied = ({ copied }: CopiedColumn): CopiedEvent[] | undefined =>
  copied === null ? undefined : JSON.parse(copied);

interface EventsRow {
  at: number;
  seq: number;
  events: string;
}

function toEvents(id: string, { at, seq, events }: EventsRow): StoredEvent[] {
  const bodies = fromEventText(events);
  return bodies.map((body, index) => toEvent(id, seq - bodies.length + 1 + index, at, body));
}
