import type { JsonText } from "../../core/json.ts";
import type { Transition } from "../execution.ts";
import { toCommandKey } from "../walk/journal-keys.ts";
import { maxInlineBytes, toValue, type Value } from "../walk/value.ts";
import type { AttemptResult, EntryResult, JournalInput } from "../walk/decision.ts";

/** One row of a journal: the result of an entry, or a transition made from outside. */
export interface JournalRow {
  /** The number by which values refer to the row. */
  readonly id: number;
  readonly key: string;
  readonly kind: "value" | "error" | "suspended" | "command";
  readonly at: number;
  /** The JSON text; null when the value is undefined. A replay does not load values over 1 KB: null, and `bytes` has the size. */
  readonly body: string | null;
  readonly bytes?: number;
}

export function toEntryRow(id: number, key: string, result: AttemptResult): JournalRow {
  const { at } = result;
  if ("error" in result) return { id, key, kind: "error", at, body: JSON.stringify(result.error) };
  if ("suspended" in result) return { id, key, kind: "suspended", at, body: JSON.stringify(result.suspended) };
  return { id, key, kind: "value", at, body: result.value ?? null };
}

export function toCommandRow(id: number, epoch: number, command: Transition): JournalRow {
  return { id, key: toCommandKey(epoch), kind: "command", at: command.at, body: JSON.stringify(command) };
}

/** The input of the walk that a row holds. */
export function fromRow({ id, key, kind, at, body, bytes = 0 }: JournalRow): JournalInput {
  if (kind === "command") return { command: toCommand(id, JSON.parse(body!)) };
  if (kind === "error") return { key, result: { at, error: JSON.parse(body!) } };
  if (kind === "suspended") return { key, result: toEntryResult(id, { at, suspended: JSON.parse(body!) }) };
  return { key, result: { at, value: bytes > maxInlineBytes ? { row: id, bytes } : (body ?? undefined) } };
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
