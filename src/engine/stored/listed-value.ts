import type { JsonText } from "../../core/json.ts";

// A list of executions is read and sent as one response, and each of its values may have several megabytes.

/** The largest value in a list. A longer one is replaced by a marker; the state of the execution has the value. */
export const maxListedBytes = 16_384;
/** The bytes of values after which a page ends, before its `limit`. */
export const maxPageBytes = 4_194_304;

/** Replaces a value in a list. */
export interface Truncated {
  readonly $truncated: true;
  /** The size of the value as JSON. */
  readonly bytes: number;
}
export const toTruncated = (bytes: number): Truncated => ({ $truncated: true, bytes });
export const toTruncatedText = (bytes: number): JsonText => JSON.stringify(toTruncated(bytes));
