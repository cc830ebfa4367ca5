import type { JsonText } from "../../core/json.ts";
import type { Transition } from "../execution.ts";
import { toCommandKey } from "../walk/journal-keys.ts";
import { maxInlineBytes, toValue, type Value } from "../walk/value.ts";
import type { AttemptResult, EntryResult, JournalInput } from "../walk/walk.ts";

/** One row of a journal: the result of an entry, or a transition made from outside. */
export interface JournalRow {
  /** The number by which values refer to the row. */
  readonly row: number;
  readonly key: string;
  readonly kind: RowKind;
  readonly at: number;
  /** The text of the value, the fault, the suspension or the transition. Left out of a long value that is read for a replay. */
  readonly body: string | null;
  /** The size of the body. */
  readonly bytes?: number;
}
/** `signal` is the stored name of a transition made from outside. */
type RowKind = "value" | "error" | "suspended" | "signal";

export function toEntryRow(row: number, key: string, result: AttemptResult): JournalRow {
  const { at } = result;
  if ("error" in result) return { row, key, kind: "error", at, body: JSON.stringify(result.error) };
  if ("suspended" in result) return { row, key, kind: "suspended", at, body: JSON.stringify(result.suspended) };
  return { row, key, kind: "value", at, body: result.value ?? null };
}

export function toCommandRow(row: number, epoch: number, command: Transition): JournalRow {
  return { row, key: toCommandKey(epoch), kind: "signal", at: command.at, body: JSON.stringify(command) };
}

/** The input of the walk that a row holds. */
export function fromRow({ row, key, kind, at, body, bytes = 0 }: JournalRow): JournalInput {
  if (kind === "signal") return { command: toCommand(row, JSON.parse(body!)) };
  if (kind === "error") return { key, result: { at, error: JSON.parse(body!) } };
  if (kind === "suspended") return { key, result: toEntryResult(row, { at, suspended: JSON.parse(body!) }) };
  return { key, result: { at, value: bytes > maxInlineBytes ? { row, bytes } : (body ?? undefined) } };
}

/** A result with its long value by reference to the row. */
export function toEntryResult(row: number, result: AttemptResult): EntryResult {
  if ("value" in result) return { at: result.at, value: toValue(result.value, row) };
  if (!("suspended" in result)) return result;
  const { reason, data } = result.suspended;
  return { at: result.at, suspended: { reason, data: toValue(data, row) } };
}

/** A command with its long data by reference to the row. */
export function toCommand(row: number, command: Transition): Transition<Value> {
  return command.to === "running" ? { ...command, data: toValue(command.data, row) } : command;
}

/** The text that a reference to a row means. */
export function textOf({ kind, body }: Pick<JournalRow, "kind" | "body">): JsonText | undefined {
  if (body === null || kind === "value") return body ?? undefined;
  return (JSON.parse(body) as { data?: JsonText }).data;
}
