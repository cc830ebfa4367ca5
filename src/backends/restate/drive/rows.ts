import type { ObjectContext } from "@restatedev/restate-sdk";
import type { CopiedEvent, EventBody } from "../../../engine/events.ts";
import type { ExecutionStatus } from "../../../engine/execution.ts";
import type { JournalRow } from "../../../engine/runs/journal-row.ts";
import { maxInlineBytes } from "../../../engine/walk/value.ts";
import { readAll, type SharedState } from "../calls.ts";

/** A journal row as it is stored: one state key of the drive's object. The row of the start has the number 0. */
export interface StoredRow {
  readonly number: number;
  /** Undefined for the start. */
  readonly row?: JournalRow | undefined;
  readonly at: number;
  /** The number of the last event so far. */
  readonly seq: number;
  readonly events: readonly EventBody[];
  /** The events of steps that a fork has copied. */
  readonly copied?: readonly CopiedEvent[] | undefined;
  /** Status and epoch after this row. */
  readonly status: ExecutionStatus;
  readonly epoch: number;
  /** True if the walk's transition was made. If not, a command was first and follows. */
  readonly moved?: boolean | undefined;
}

/** A page of rows, and the last row of all. */
export interface RowPage {
  readonly rows: readonly StoredRow[];
  readonly last: StoredRow | undefined;
}

/** A page has at most so many rows. It ends after the batch that reaches so many characters: an answer has a limit of 32 MiB. */
const pageSize = 100;
const pageChars = 1_048_576;
/** The row of a transition that the register may have made already. Sorts before the rows. */
const pendingKey = "pending";

export const toRowKey = (number: number): string => `r${String(number).padStart(7, "0")}`;
const isRowKey = (key: string): boolean => key.startsWith("r");

/**
 * The number of stored rows, in one entry of Restate's journal. A drive may have been killed between the register's answer and
 * its row. Then the transition is stored first: `epoch`, which is the register's, includes it.
 */
export async function openRows(context: ObjectContext, epoch: number): Promise<{ count: number; added?: StoredRow }> {
  const keys = await context.stateKeys();
  const count = keys.filter(isRowKey).length;
  if (!keys.includes(pendingKey)) return { count };
  const pending = await context.get<StoredRow>(pendingKey);
  context.clear(pendingKey);
  if (pending?.number !== count || pending.epoch > epoch) return { count };
  context.set(toRowKey(count), pending);
  return { count: count + 1, added: pending };
}

export interface RowHost {
  /** Reads the first rows of an execution. */
  firstRows(id: string, count: number): Promise<StoredRow[]>;
  publish(id: string, row: StoredRow, states: readonly []): void;
}

/** The rows at the start of a handler. They never change, so Restate's journal need not have them. */
export async function loadRows(
  context: ObjectContext,
  host: RowHost,
  { id, epoch }: { id: string; epoch: number },
): Promise<StoredRow[]> {
  const { count, added } = await openRows(context, epoch);
  if (added) host.publish(id, added, []);
  return added ? [...(await host.firstRows(id, count - 1)), added] : host.firstRows(id, count);
}

/** Keeps the row of a transition before the register is asked for it. */
export const keepPending = (context: ObjectContext, row: StoredRow): void => context.set(pendingKey, row);
export const dropPending = (context: ObjectContext): void => context.clear(pendingKey);

/** Reads the next stored rows from a number on, and the last one. */
export async function readPage(state: SharedState, from: number): Promise<RowPage> {
  const keys = (await state.context.stateKeys()).filter(isRowKey).toSorted();
  const rows: StoredRow[] = [];
  const end = Math.min(keys.length, from + pageSize);
  // Small batches first: the size of a row is known when it is read.
  for (let size = 2, next = from, chars = 0; next < end && chars < pageChars; next += size, size *= 2) {
    const batch = await readRows(state, keys.slice(next, Math.min(end, next + size)));
    rows.push(...batch);
    for (const { row, events, copied } of batch)
      chars += (row?.body?.length ?? 0) + JSON.stringify([events, copied]).length;
  }
  const lastKey = keys.at(-1);
  const isRead = lastKey !== undefined && rows.at(-1)?.number === keys.length - 1;
  const [last] = isRead ? rows.slice(-1) : await readRows(state, lastKey === undefined ? [] : [lastKey]);
  return { rows, last };
}

/** The page without values over 1 KB: their rows have only the size. */
export function toShortPage({ rows, last }: RowPage): RowPage {
  return { rows: rows.map(toShort), last: last && toShort(last) };
}
function toShort(stored: StoredRow): StoredRow {
  const { row } = stored;
  if (!row) return stored;
  const bytes = Buffer.byteLength(row.body ?? "");
  if (bytes > maxInlineBytes && row.kind === "value") return { ...stored, row: { ...row, body: null, bytes } };
  if (bytes > maxInlineBytes && row.kind === "loop")
    return { ...stored, row: { ...row, body: row.body.slice(0, row.body.indexOf("\n") + 1), bytes } };
  return { ...stored, row: { ...row, bytes } };
}

const readRows = async (state: SharedState, keys: readonly string[]): Promise<StoredRow[]> =>
  (await readAll<StoredRow>(state, keys)).filter((row) => row !== null);

/** The paths of the steps that have started. */
export function startedIn(rows: readonly StoredRow[]): Set<string> {
  const events = rows.flatMap((row) => row.events);
  return new Set(events.filter(({ type }) => type === "step-start").map(({ from = "" }) => from));
}
