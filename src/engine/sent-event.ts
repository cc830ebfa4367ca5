import type { JsonText } from "../core/json.ts";

/** An event that was sent to the executions that wait for it. */
export interface SentEvent {
  readonly id: string;
  readonly name: string;
  /** Empty if it has none. */
  readonly key: string;
  readonly data: JsonText | undefined;
  /** Only executions of this user get it; undefined for all. */
  readonly userId?: string | undefined;
  /** Whether code has sent it, not a request. */
  readonly isFromCode: boolean;
}

/** The longest key of an event. */
export const longestKey = 256;

/** The result of sending: the event is stored, is stored already, or its id is that of another event. */
export type Sending = "stored" | "known" | "conflict";

/** Whether an event with a known id is the same event, sent again. */
export const isSameEvent = (one: SentEvent, other: SentEvent): boolean =>
  (["name", "key", "data", "userId", "isFromCode"] as const).every((field) => one[field] === other[field]);
