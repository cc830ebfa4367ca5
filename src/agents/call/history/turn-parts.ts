import type { ModelMessage } from "ai";
import type { JsonText } from "../../../core/json.ts";
import type { AdmitHistory, ChangedMessage, Turn } from "../../../engine/contract/conversations.ts";
import type { Approver, DecidedCall } from "../../../engine/stored/pending-calls.ts";
import type { StoredUiMessage } from "../../messages/ui-message.ts";
import type { ExecutionEnd } from "../../tools/outside.ts";
import type { Decision } from "../approvals/decisions.ts";
import type { Draft } from "./draft.ts";
import type { ClientMessage } from "./messages.ts";
import type { AskedApproval, OpenApproval } from "../approvals/pending-calls.ts";
import type { ToolCallName } from "../tool-failure.ts";

/** The input of a turn of a conversation. */
export interface TurnInput {
  /** The messages that the client sent: its whole history, or only the new ones. */
  readonly messages: readonly ClientMessage[];
  /** The id of the message to regenerate. It is replaced, together with all messages after it. */
  readonly regenerate?: string | undefined;
  /** True if the messages come from the author's code: all of them are new, and none is forged. */
  readonly trusted?: boolean | undefined;
  /** The name of a turn that may run again, such as that of a step. A second run replaces the messages of the first. */
  readonly turnName?: string | undefined;
  /** The time of the messages of a turn that runs again. @default now */
  readonly at?: number | undefined;
  /** The decisions of the server about calls that wait. There are no messages beside them. */
  readonly decisions?: readonly Decision[] | undefined;
  /** The outcomes of the calls that a turn continues, if it runs again. */
  readonly outcomes?: readonly DecidedCall[] | undefined;
  /** The ends of executions that calls wait for, from the server. There are no messages beside them. */
  readonly ended?: readonly EndedCall[] | undefined;
  /** The results of those calls, if the turn runs again. */
  readonly results?: readonly ModelMessage[] | undefined;
  /** The user whose messages decide about calls that wait. @default nobody, approvals are refused */
  readonly decider?: Decider | undefined;
}

/** The user whose messages decide about calls that wait. */
export interface Decider {
  /** Undefined: the user is not known. */
  readonly by?: Approver | undefined;
  /** Rejects if the user may not decide about a call. */
  admit(call: AskedApproval & { readonly at: number }): Promise<void>;
}
/** The end of an execution that a call waits for. */
interface EndedCall extends ToolCallName {
  /** The id of the execution. */
  readonly id: string;
  readonly end: ExecutionEnd;
}
/** The data with which a client resumes the execution of a call that waits. */
export interface CallResume {
  readonly executionId: string;
  readonly data: unknown;
}
/** The changes that a turn makes to calls that wait, and to the message that has them. */
export interface CallChanges {
  readonly changed: readonly ChangedMessage[];
  readonly decided: readonly DecidedCall[];
  /** The model messages of the message, if they have changed. */
  readonly models?: readonly ModelMessage[];
}
/** An answer that waits for more decisions, or for results of the client's own tools. */
export interface WaitingAnswer {
  readonly messageId: string;
  readonly rest: readonly OpenApproval[];
  /** The executions that the client resumes. @default none */
  readonly resumes?: readonly CallResume[] | undefined;
}

/** A stored conversation, as a turn uses it. */
export interface TurnStore {
  readonly turn: Turn;
  /** Awaited before the messages of the conversation are loaded. */
  readonly admit: AdmitHistory;
  /** Reads the last stored message. */
  readonly readLast: () => Promise<StoredUiMessage | undefined>;
  /** The time at which the turn began. */
  readonly at: number;
  /** Aborted when the turn is ended early. */
  readonly signal: AbortSignal;
  /** Max bytes of messages in the prompt. The last message is always in it. */
  readonly maxBytes: number;
  /** Called with the number of model messages that were left out because of `maxBytes`, if there are any. */
  readonly onOmitted: (count: number) => void;
  /** Returns the facts of the call, for a turn that continues its answer. */
  readonly toOrigin: () => JsonText;
  /** Called when the first message of a new conversation is stored. */
  readonly onNew: (message: StoredUiMessage, title: string) => void;
}

/** The new messages of a turn. */
export interface Fresh {
  readonly drafts: readonly Draft[];
  /** The number of rows at the end that the first draft replaces. It has their model messages. @default 0 */
  readonly replaced?: number | undefined;
  /** The id of the stored message that the first draft replaces. */
  readonly until?: string | undefined;
  /** The changes of calls that wait, and of the last stored message that has them. */
  readonly changes?: CallChanges | undefined;
  /** The open calls of the message that the first draft continues, and their outcomes. */
  readonly open?: readonly OpenApproval[] | undefined;
  readonly outcomes?: readonly DecidedCall[] | undefined;
  /** The results of calls that have waited for an execution. */
  readonly results?: readonly ModelMessage[] | undefined;
  /** The answer that waits for more decisions. */
  readonly waiting?: WaitingAnswer | undefined;
}

/** The model messages of one message, and their size as JSON. */
export interface Sized {
  readonly models: readonly ModelMessage[];
  readonly bytes: number;
}

/** A stored row, with its model messages. */
export interface Row extends Sized {
  readonly id?: string | undefined;
  readonly role: string;
}
