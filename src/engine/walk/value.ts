import type { JsonText } from "../../core/json.ts";

/**
 * A JSON value as a walk carries it: a short text itself, a long one by the journal row that holds it. The memory of a
 * walk therefore does not grow with what its steps return. A text is read when an attempt starts.
 */
export type Value = JsonText | undefined | StoredValue | JoinedValue | ItemValue | WrappedValue;

/** A text in the journal. */
interface StoredValue {
  readonly row: number;
  readonly bytes: number;
}
/** The array of other values, in order. */
interface JoinedValue {
  readonly items: readonly Value[];
}
/** An item of an array in the journal; of an array in an array, if there are several indexes. */
interface ItemValue {
  readonly row: number;
  readonly path: readonly number[];
  /** About: the share of one item in the array size. */
  readonly bytes: number;
}
/** A value with text around it. */
interface WrappedValue {
  readonly before: string;
  readonly value: Value;
  readonly after: string;
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

/** The items of an array, which has `count` of them. */
export function toItems(array: Value, count: number): (index: number) => Value {
  if (typeof array === "string") {
    const items = (JSON.parse(array) as unknown[]).map((item) => JSON.stringify(item));
    return (index) => items[index];
  }
  if (array && "items" in array) return (index) => array.items[index];
  if (!array || "before" in array) throw new Error("The items of a loop are not an array"); // its first entry has checked that
  const { row, path = [], bytes: all } = array as StoredValue & Partial<ItemValue>;
  const bytes = Math.ceil(all / count);
  return (index) => ({ row, path: [...path, index], bytes });
}

/** A value as a part of a longer text. */
export const wrapValue = (before: string, value: Value, after: string): Value => ({ before, value, after });

/** The text of a value. */
export function toText(value: Value, read: ReadRow): JsonText | undefined {
  if (!isReference(value)) return value;
  if ("path" in value) return readItem(value, read);
  if ("row" in value) return read(value.row);
  if ("before" in value) return `${value.before}${toText(value.value, read) ?? "null"}${value.after}`;
  return `[${value.items.map((item) => toText(item, read) ?? "null").join()}]`;
}

/** The size of a value as JSON, in bytes. */
export function sizeOf(value: Value): number {
  if (value === undefined) return 4; // null, in an array
  if (typeof value === "string") return Buffer.byteLength(value);
  if ("row" in value) return value.bytes;
  if ("before" in value) return value.before.length + sizeOf(value.value) + value.after.length;
  return value.items.reduce((sum: number, item) => sum + sizeOf(item) + 1, value.items.length > 0 ? 1 : 2);
}

const isReference = (value: Value): value is Exclude<Value, JsonText | undefined> => typeof value === "object";

/** The array that each reader has read last. A loop reads its items one after the other, and parses them once. */
const lastArrays = new WeakMap<ReadRow, { readonly row: number; readonly array: unknown }>();

function readItem({ row, path }: ItemValue, read: ReadRow): JsonText | undefined {
  let last = lastArrays.get(read);
  if (last?.row !== row) {
    last = { row, array: JSON.parse(read(row) ?? "null") };
    lastArrays.set(read, last);
  }
  const item = path.reduce<unknown>((array, index) => (array as unknown[])[index], last.array); // as the loop has counted them
  return JSON.stringify(item);
}
