import type { CopiedEvent, EventBody } from "../events.ts";
import type { JournalRow } from "../runs/journal-row.ts";

/** A row of a journal with the events that follow from it. */
export interface HistoryRow {
  /** Undefined for the start of an execution. */
  readonly row?: JournalRow | undefined;
  readonly at: number;
  readonly events: readonly EventBody[];
  /** The events of steps that a fork has copied. Undefined for all other rows, and in forks of former versions. */
  readonly copied?: readonly CopiedEvent[] | undefined;
}

/** Rows, a page at a time. */
export type HistoryPages = AsyncIterable<readonly HistoryRow[]> | Iterable<readonly HistoryRow[]>;
