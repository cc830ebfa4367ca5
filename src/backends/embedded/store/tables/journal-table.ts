import type { StatementSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { JsonText } from "../../../../core/json.ts";
import type { HistoryRow } from "../../../../engine/contract/engine.ts";
import { toEvents, type CopiedEvent, type EventBody, type StoredEvent } from "../../../../engine/events.ts";
import { textOf, type JournalRow } from "../../../../engine/runs/journal-row.ts";
import { firstEvent, type EventCursor, type EventPage } from "../../../../engine/runs/readers.ts";
import { pageRows, rows } from "../rows.ts";
import type { Statements } from "../sql.ts";

/** The journals of executions, as they are read. */
export class JournalTable {
  readonly #statements: Statements;

  constructor(statements: Statements) {
    this.#statements = statements;
  }

  /** The rows of a journal, a page at a time. Other work of the process runs between two pages. */
  rows(number: number): AsyncGenerator<JournalRow[]> {
    return this.#pages<JournalRow>(this.#statements.journal, number);
  }

  /** The rows of a journal with their events, a page at a time; the first one is the start. */
  async *history(id: string): AsyncGenerator<HistoryRow[]> {
    const start = this.#statements.beginning.get(id) as (EventsRow & CopiedColumn & { number: number }) | undefined;
    if (!start) return;
    yield [{ row: undefined, at: start.at, events: fromEventText(start.events), copied: toCopied(start) }];
    for await (const page of this.#pages<StoredHistoryRow>(this.#statements.history, start.number))
      // A copy of each row without its events would take a tenth of the time for a steps request.
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

  /** The text of a long value. Without a number: of any execution, for a fork that copies it. */
  text(number: number | null, row: number): JsonText | undefined {
    const found = this.#statements.row.get(row, number) as Pick<JournalRow, "kind" | "body"> | undefined;
    if (!found) throw new Error(`Row ${row} of the journal is missing`);
    return textOf(found);
  }

  /** The last event number of an execution. */
  lastSeq(number: number): number {
    return (this.#statements.lastSeq.get(number) as { seq: number }).seq;
  }

  /** The next events after a place in the journal, from at most one page of rows; empty at the end. */
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
    const all = found.flatMap((one) => toEvents(id, { ...one, events: fromEventText(one.events) }));
    const events = all.filter(({ seq }) => seq > after.seq);
    // A damaged file may have them in any order.
    return { events, last: { row, seq: events.reduce((max, { seq }) => Math.max(max, seq), after.seq) } };
  }

  /** All events of an execution, a page at a time. Other work of the process runs between two pages. */
  async *allEvents(id: string): AsyncGenerator<readonly StoredEvent[]> {
    for (let page = this.events(id, firstEvent); page.events.length > 0; page = this.events(id, page.last)) {
      yield page.events;
      await nextTurn();
    }
  }
}

/** The rows of a journal that are read at once. A replay decides about each of them, in code that a new process has not compiled yet. */
const journalPageRows = 250;

interface CopiedColumn {
  copied: string | null;
}
type StoredHistoryRow = JournalRow & CopiedColumn & { events: string | null };
const toCopied = ({ copied }: CopiedColumn): CopiedEvent[] | undefined =>
  copied === null ? undefined : JSON.parse(copied);

interface EventsRow {
  at: number;
  seq: number;
  events: string;
}

// Step starts and completions are most of a file. They are stored without field names.
type StepStart = readonly [0, from: string, stepIndex: number, stepType: string, attempt: number];
type StepComplete = readonly [1, from: string, stepIndex: number, stepType: string, attempt: number, status: string];

/** Events as they are stored. */
export function toEventText(events: readonly EventBody[]): string {
  return JSON.stringify(events.map(shorten));
}

export function fromEventText(text: string): EventBody[] {
  return (JSON.parse(text) as (EventBody | StepStart | StepComplete)[]).map(lengthen);
}

function shorten(event: EventBody): EventBody | readonly unknown[] {
  const { type, from, stepIndex, stepType, attempt, status } = event;
  if (type === "step-start") return [0, from, stepIndex, stepType, attempt];
  if (type === "step-complete") return [1, from, stepIndex, stepType, attempt, status];
  return event;
}

function lengthen(event: EventBody | StepStart | StepComplete): EventBody {
  if (!isShort(event)) return event;
  const [, from, stepIndex, stepType, attempt, status] = event;
  const step = { from, stepIndex, stepType, attempt };
  return event[0] === 0 ? { type: "step-start", ...step } : { type: "step-complete", ...step, status };
}

const isShort = (event: EventBody | StepStart | StepComplete): event is StepStart | StepComplete =>
  Array.isArray(event);
