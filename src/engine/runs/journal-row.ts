import type { JsonText } from "../../core/json.ts";
import type { StoredError, Transition } from "../execution.ts";
import { toCommandKey } from "../walk/journal-keys.ts";
import { maxInlineBytes, toValue, type Value } from "../walk/value.ts";
import type { AttemptResult, EntryResult, JournalInput, LoopStart, Wake } from "../walk/decision.ts";

/** One row of a journal: the result of an entry, the end of a wait, or a command. */
export type JournalRow = RowFacts & RowBody;
interface RowFacts {
  /** The number by which values refer to the row. */
  readonly id: number;
  readonly key: string;
  readonly at: number;
  readonly bytes?: number;
  /** Of the result of an attempt that has recorded others before: they are removed with the commit of this row. */
  readonly hasRecords?: true;
}
/** The JSON text of a row. A replay does not load values over 1 KB: `bytes` has their size. */
type RowBody =
  /** Null when the value is undefined, or not loaded. */
  | { readonly kind: "value"; readonly body: string | null }
  /** The items of a loop, after a line that says how the loop begins. The line is always loaded. */
  | { readonly kind: "loop"; readonly body: string }
  | { readonly kind: "error" | "suspended" | "wake" | "command"; readonly body: string };

/** A row, and the input of the walk that it holds. */
interface RowInput {
  readonly row: JournalRow;
  readonly input: JournalInput;
}

/** The end of an attempt. */
export function toEntry(id: number, key: string, result: AttemptResult): RowInput {
  return { row: toEntryRow(id, key, result), input: { key, result: toEntryResult(id, result) } };
}
/** The row and the input of a command. */
export function toCommandEntry(id: number, epoch: number, command: Transition): RowInput {
  return { row: toCommandRow(id, epoch, command), input: { command: toCommand(id, command) } };
}

/** The result of an attempt; a final error in its place if its value would make the execution larger than allowed. */
export function toBounded(
  result: AttemptResult,
  { bytes, executionBytes }: { readonly bytes: number; readonly executionBytes: number },
): AttemptResult {
  const text = "value" in result ? result.value : "suspended" in result ? result.suspended.data : undefined;
  if (text === undefined || bytes + Buffer.byteLength(text) <= executionBytes) return result;
  const message = `The values of the execution take more than ${executionBytes} bytes (limits.executionBytes)`;
  return { at: result.at, error: { message, shown: true }, isFinal: true, hasRecords: result.hasRecords };
}

function toEntryRow(id: number, key: string, result: AttemptResult): JournalRow {
  const row = toResultRow(id, key, result);
  return result.hasRecords ? { ...row, hasRecords: true } : row;
}

function toResultRow(id: number, key: string, result: AttemptResult): JournalRow {
  const { at } = result;
  if ("error" in result) return { id, key, kind: "error", at, body: toFailureText(result) };
  if ("suspended" in result) return { id, key, kind: "suspended", at, body: JSON.stringify(result.suspended) };
  if ("loop" in result) return { id, key, kind: "loop", at, body: toLoopText(result.loop, result.value) };
  return { id, key, kind: "value", at, body: result.value ?? null };
}

export function toCommandRow(id: number, epoch: number, command: Transition): JournalRow {
  return { id, key: toCommandKey(epoch), kind: "command", at: command.at, body: JSON.stringify(command) };
}

/** The row of a wait that a time or an event ended. */
export function toWakeRow(id: number, { key, at, value, event, isJoined }: StoredWake): JournalRow {
  return { id, key, kind: "wake", at, body: JSON.stringify({ data: value, event, isJoined }) };
}
/** The end of a wait before the journal has a row for it. */
export interface StoredWake extends Omit<Wake, "value"> {
  readonly value?: JsonText | undefined;
  /** The id of the event. */
  readonly event?: string | undefined;
}

/** The id of the event that ended a wait. */
export const eventOf = ({ body }: { readonly body: string }): string | undefined =>
  (JSON.parse(body) as { event?: string }).event;

/** The input of the walk that a row holds. */
export function fromRow({ id, key, at, bytes = 0, ...row }: JournalRow): JournalInput {
  if (row.kind === "command") return { command: toCommand(id, JSON.parse(row.body)) };
  if (row.kind === "error") return { key, result: { at, ...fromFailureText(row.body) } };
  if (row.kind === "suspended") return { key, result: toEntryResult(id, { at, suspended: JSON.parse(row.body) }) };
  if (row.kind === "wake") {
    const { data, isJoined } = JSON.parse(row.body) as { data?: JsonText; isJoined?: true };
    return { wake: { key, at, value: toValue(data, id), isJoined } };
  }
  if (row.kind === "loop") {
    const [head = "", items = ""] = row.body.split("\n");
    const isLoaded = items !== "" || bytes <= Buffer.byteLength(row.body);
    return {
      key,
      result: { at, loop: JSON.parse(head), value: isLoaded ? toValue(items || undefined, id) : { row: id, bytes } },
    };
  }
  return { key, result: { at, value: bytes > maxInlineBytes ? { row: id, bytes } : (row.body ?? undefined) } };
}

const toLoopText = (loop: LoopStart, items: JsonText | undefined): string => `${JSON.stringify(loop)}\n${items ?? ""}`;

type Failure = Pick<Extract<EntryResult, { error: unknown }>, "error" | "isFinal">;

/** One object: a row of an older version is the error alone. */
const toFailureText = ({ error, isFinal }: Failure): string => JSON.stringify({ ...error, isFinal });
function fromFailureText(text: string): Failure {
  const { isFinal, ...error } = JSON.parse(text) as StoredError & Pick<Failure, "isFinal">;
  return { error, isFinal };
}

/** A result with its long value by reference to the row. */
function toEntryResult(row: number, result: AttemptResult): EntryResult {
  if ("value" in result) return { ...result, value: toValue(result.value, row) };
  if (!("suspended" in result)) return result;
  const { suspended } = result;
  return { at: result.at, suspended: { ...suspended, data: toValue(suspended.data, row) } };
}

/** A command with its long data by reference to the row. */
function toCommand(row: number, command: Transition): Transition<Value> {
  return command.to === "running" ? { ...command, data: toValue(command.data, row) } : command;
}

/** The text that a reference to a row means. */
export function textOf({ kind, body }: Pick<JournalRow, "kind" | "body">): JsonText | undefined {
  if (body === null || kind === "value") return body ?? undefined;
  if (kind === "loop") return body.slice(body.indexOf("\n") + 1) || undefined;
  return (JSON.parse(body) as { data?: JsonText }).data;
}
