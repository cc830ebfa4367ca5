import { invalidCursor, type ConversationKey } from "./stored-conversation.ts";
import type { JsonText } from "../../core/json.ts";

/**
 * A tool call in a stored answer that waits for something outside. The answer is continued by another turn, when each of its
 * calls has an outcome. `type` says what it waits for.
 */
export interface PendingCall {
  readonly type: "approval" | "execution";
  /** Unique among all conversations: the id of the approval, or of the execution. */
  readonly id: string;
  /** The message that has the call. */
  readonly messageId: string;
  readonly toolCallId: string;
  readonly toolName: string;
  /** The asked agents, if the call waits for an approval. The last of them has the tool `toolName`. */
  readonly via?: readonly string[] | undefined;
  /** Empty once there is an outcome: the message has it. */
  readonly input: JsonText;
  /** The time since which it waits. */
  readonly at: number;
  /** Undefined: it waits. */
  readonly outcome?: CallOutcome | undefined;
}

/** The outcome of a call that has waited. Written once. */
export interface CallOutcome {
  /** True for a call whose execution is over. */
  readonly approved: boolean;
  readonly reason?: string | undefined;
  /** The user that decided. Undefined: the conversation has continued without it. */
  readonly by?: Approver | undefined;
  readonly at: number;
}
/** The user that has decided about a tool call, as the authentication provider returned it. */
export type Approver = Readonly<Record<string, unknown>>;

/** The calls of an answer that wait. */
export interface WaitingCalls {
  readonly calls: readonly PendingCall[];
  /** The facts of the asking agent call, for the turn that continues the answer. */
  readonly origin: JsonText;
}
/** The outcome of a call, by its id. */
export interface DecidedCall {
  readonly id: string;
  readonly outcome: CallOutcome;
}

/** A call, and its conversation. */
export interface FoundCall extends PendingCall {
  readonly key: ConversationKey;
  /** Undefined once there is an outcome. */
  readonly origin?: JsonText | undefined;
  /** The place in the list. */
  readonly cursor: string;
}
/** A page of the calls that wait for an approval, oldest first. */
export interface CallFilter {
  /** The user of the conversations. @default the calls of all users */
  readonly owner?: { readonly userId?: string | undefined } | undefined;
  readonly limit: number;
  /** The cursor of the call before the page. @default the oldest is the first */
  readonly after?: string | undefined;
}
export interface CallPage {
  readonly calls: readonly FoundCall[];
  readonly hasMore: boolean;
}

/** Max calls of one conversation that wait. */
export const maxPending = 128;

/** Returns the number of a cursor. */
export function toCallNumber(cursor: string | undefined): number {
  if (cursor === undefined) return 0;
  if (!/^\d{1,15}$/.test(cursor)) throw invalidCursor();
  return Number(cursor);
}
