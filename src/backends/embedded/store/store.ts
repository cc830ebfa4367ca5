import { DatabaseSync } from "node:sqlite";
import { attempt } from "../../../core/attempt.ts";
import { notFound, ServeError } from "../../../core/error.ts";
import { toTransitionEvents, type CopiedEvent, type EventBody } from "../../../engine/events.ts";
import { isRetry, resolveTransition, type Execution, type Transition } from "../../../engine/execution.ts";
import type { JournalRow } from "../../../engine/runs/journal-row.ts";
import type { Change, Copy } from "../../../engine/runs/run-port.ts";
import { isTurn } from "../../../engine/turn-execution.ts";
import { toText, type ReadRow } from "../../../engine/walk/value.ts";
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
import { statements, type Statements } from "./sql.ts";
import { JournalTable, toEventText } from "./tables/journal-table.ts";
import { ProcessTable } from "./tables/process-table.ts";
import { prepare, rows } from "./rows.ts";
import {
  none,
  toState,
  type Commit,
  type Expiry,
  type ListedExecution,
  type NewestFilter,
  type StateRow,
  type SweepRow,
  type SweepResult,
  type StoredState,
} from "./stored-state.ts";
import { WaitTable } from "./tables/wait-table.ts";
import { afterTransition, isEnd } from "../../../engine/rules/transitions.ts";

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
  readonly journals: JournalTable;
  readonly processes: ProcessTable;
  /** The format that the file had when it was opened; 0 if it was new. */
  readonly formerFormat: number;
  readonly #db: DatabaseSync;
  readonly #file: DataFile | undefined;
  readonly #statements: Statements;
  #lastNumber: number;
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
      this.#statements = prepare(this.#db, statements);
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
      this.journals = new JournalTable(this.#statements);
      this.processes = new ProcessTable(this.#statements, this.#lastNumber);
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
    const transitions = this.#resolve(change, readRow);
    const events = transitions.length > 0 ? [...change.events, ...toTransitionEvents(transitions)] : change.events;
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
    // `state` lags behind if the change before this one is in the same transaction: it may have added waits.
    if (last && (hasWaits(state.last) || state.epoch !== epoch)) this.waits.remove(number);
    if (last?.to === "suspended" && hasWaits(last)) this.waits.add(number, last, change.times);
    // The answer of a turn is in its conversation.
    if (last && isEnd(last.to) && isTurn(execution)) this.#remove(number);
    return { events, states };
  }

  /** The transitions of a change, with texts in place of values. Those of a fork may refer to rows that it copies. */
  #resolve({ transitions, copies }: Change, readRow: ReadRow): Transition[] {
    if (transitions.length === 0) return [];
    const originals = copies && new Map(copies.map((copy) => [copy.row.id, copy.original]));
    const read: ReadRow = (id) => (originals?.has(id) ? this.journals.text(null, originals.get(id)!) : readRow(id));
    return transitions.map((one) => resolveTransition(one, (value) => toText(value, read)));
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
  readonly newRow = (): number => ++this.#lastRow;
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

  /** The suspended executions of a workflow, counted up to `maxCounted`. */
  countSuspended(workflowId: string): number {
    return (this.#statements.suspended.get(workflowId) as { count: number }).count;
  }
  /** The newest executions of all workflows. */
  newest({ statuses, workflowId, userId, idPrefix, limit }: NewestFilter): ListedExecution[] {
    const status = statuses ? `,${statuses.join()},` : null;
    const { newest } = this.#statements;
    return rows<ListedExecution>(newest, status, workflowId ?? null, userId ?? null, idPrefix ?? null, limit);
  }

  /** Removes the executions that have expired, among the next `count`. */
  sweep(after: number, { now, ended, suspended, isDriven }: Expiry, count: number): SweepResult {
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
    // A start by a clock that was ahead says nothing about later executions.
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

/** True if an execution waits for a time or an event. */
const hasWaits = (last: Transition | undefined): boolean =>
  last?.to === "suspended" && (last.wake !== undefined || last.events !== undefined);
