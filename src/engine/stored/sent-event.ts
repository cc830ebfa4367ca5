import type { JsonText } from "../../core/json.ts";

/**
 * The sender of an event. The three kinds have no text in common, whatever the id of a user is. A user without an id is an
 * anonymous caller.
 */
export type Sender = "code" | "anonymous" | `user ${string}`;

export const toUserSender = (userId: string | undefined): Sender =>
  userId === undefined ? "anonymous" : `user ${userId}`;

/** An event for the executions that wait for it. */
export interface SentEvent {
  /** The id that the sender has chosen, and the sender (`toStoredId`): no other sender can take it. */
  readonly id: string;
  readonly name: string;
  /** Empty if it has none. */
  readonly key: string;
  readonly data: JsonText | undefined;
  /** Only executions of this user get it; undefined for all. */
  readonly userId?: string | undefined;
  /** True if code has sent it, not a request. */
  readonly isFromCode: boolean;
}

/** The longest key of an event. */
export const longestKey = 256;

/** The id of an event in the store and in journals. The id of a sender has no spaces. */
export const toStoredId = (id: string, sender: Sender): string => `${id} ${sender}`;
/** The id that the sender has chosen. Versions without senders stored only that. */
export const toSentId = (storedId: string): string => storedId.split(" ", 1)[0]!;
/** Empty for an event of such a version. */
export const senderOf = (storedId: string): string => storedId.slice(toSentId(storedId).length + 1);

/** The result of sending: the event is stored, is stored already, or another event has its id. */
export type Sending = "stored" | "known" | "conflict";

/** True if an event with a known id is the same event, sent again. */
export const isSameEvent = (one: SentEvent, other: SentEvent): boolean =>
  (["name", "key", "data", "userId", "isFromCode"] as const).every((field) => one[field] === other[field]);
