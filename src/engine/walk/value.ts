import type { JsonText } from "../../core/json.ts";

/**
 * A JSON value as a walk carries it: a short text itself, a long one by the journal row that holds it. The memory of a
 * walk therefore does not grow with what its steps return. A text is read when an attempt starts.
 */
export type Value = JsonText | undefined | StoredValue | JoinedValue;

/** A text in the journal. */
interface StoredValue {
  readonly row: number;
  readonly bytes: number;
}
/** The array of other values, in order. */
interface JoinedValue {
  readonly items: readonly Value[];
}

/** Reads the text of a journal row. */
export type ReadRow = (row: number) => JsonText | undefined;

/** The row number that stands for the execution's input. Rows of a journal begin at 1. */
export const inputRow = 0;
/** The longest text that a walk carries. */
export const maxInlineBytes = 1024;

/** The value of a text that is, or will be, in a row of the journal. */
export function toValue(text: JsonText | undefined, row: number): Value {
  // A UTF-16 unit is one to three bytes in UTF-8: most texts need not be measured.
  if (text === undefined || text.length * 3 <= maxInlineBytes) return text;
  const bytes = Buffer.byteLength(text);
  return bytes <= maxInlineBytes ? text : { row, bytes };
}

/** The JSON array of these values; undefined becomes null, as in `JSON.stringify`. Returns the text if it is short, else references. */
export function joinValues(values: readonly Value[]): Value {
  const items = values.map((value) => value ?? "null");
  const isShort = items.every((item) => typeof item === "string" && item.length * 3 <= maxInlineBytes);
  const text = isShort ? `[${items.join()}]` : undefined;
  return text !== undefined && text.length * 3 <= maxInlineBytes ? text : { items };
}

/** The text of a value. */
export function toText(value: Value, read: ReadRow): JsonText | undefined {
  if (!isReference(value)) return value;
  if ("row" in value) return read(value.row);
  return `[${value.items.map((item) => toText(item, read) ?? "null").join()}]`;
}

const isReference = (value: Value): value is StoredValue | JoinedValue => typeof value === "object";
