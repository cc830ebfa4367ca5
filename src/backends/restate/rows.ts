import type { ObjectSharedContext, RestatePromise } from "@restatedev/restate-sdk";
import { toEvent, type EventBody, type StoredEvent } from "../../engine/events.ts";
import type { ExecutionStatus, Position } from "../../engine/execution.ts";
import type { JournalRow } from "../../engine/runs/journal-row.ts";
import type { RestateSdk } from "./sdk.ts";

/** A journal row as it is stored: one state key of the drive's object. The row of the start has the number 0. */
export interface StoredRow {
  readonly number: number;
  /** Undefined for the start. */
  readonly row?: JournalRow | undefined;
  readonly at: number;
  /** The number of the last event so far. */
  readonly seq: number;
  readonly events: readonly EventBody[];
  /** Status and epoch after this row. */
  readonly status: ExecutionStatus;
  readonly epoch: number;
  /** The transition that the walk decided on was made. If not, a command was first and follows. */
  readonly moved?: boolean | undefined;
}

const pageSize = 100;

export const toRowKey = (number: number): string => `r${String(number).padStart(7, "0")}`;

/** Reads the next stored rows from a number on. */
export async function readRows(
  { RestatePromise }: RestateSdk,
  context: ObjectSharedContext,
  from: number,
  limit: number = pageSize,
): Promise<StoredRow[]> {
  const keys = (await context.stateKeys()).filter((key) => key >= toRowKey(from)).toSorted();
  // `get` returns a RestatePromise, which its type hides. `Promise.all` would wait for each of them separately.
  const reads = keys.slice(0, limit).map((key) => context.get<StoredRow>(key) as RestatePromise<StoredRow | null>);
  return (await RestatePromise.all(reads)).filter((row) => row !== null);
}

/** The events of a row, with their numbers. */
export function toEvents(executionId: string, { at, seq, events }: StoredRow): StoredEvent[] {
  const first = seq - events.length + 1;
  return events.map((body, index) => toEvent(executionId, first + index, at, body));
}

/** The paths of the steps that have started. */
export function startedIn(rows: readonly StoredRow[]): Set<string> {
  const events = rows.flatMap((row) => row.events);
  return new Set(events.filter(({ type }) => type === "step-start").map(({ from = "" }) => from));
}

/** The innermost step that has started and not completed. */
export function lastPosition(rows: readonly StoredRow[]): Position | undefined {
  const open = new Map<string, Position>();
  for (const { type, from = "", stepIndex } of rows.flatMap((row) => row.events)) {
    if (type === "step-start") open.set(from, { stepId: from, stepIndex: stepIndex as number }); // as the walk says it
    if (type === "step-complete") open.delete(from);
  }
  return [...open.values()].at(-1);
}
