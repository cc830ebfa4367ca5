import type { ModelMessage } from "ai";
import type { JsonText } from "../../../core/json.ts";
import type { AdmitHistory, ChangedMessage, Turn } from "../../../engine/contract/conversations.ts";
import type { Approver, DecidedCall, PendingCall } from "../../../engine/stored/pending-calls.ts";
import type { StoredUiMessage, UiParts } from "../../messages/ui-message.ts";
import type { ExecutionEnd } from "../../tools/outside.ts";
import type { Decision } from "../approvals/decisions.ts";
import type { Draft, TurnAnswer } from "./draft.ts";
import type { ClientMessage } from "./messages.ts";
import type { AskedApproval, OpenApproval } from "../approvals/pending-calls.ts";
import type { ContinuedCalls } from "../approvals/tool-approvals.ts";
import type { ToolCallName } from "../tool-failure.ts";

/** The input of a turn in a conversation. */
export interface TurnInput {
  /** The messages that the client sent: its whole history, or only the new ones. */
  readonly messages: readonly ClientMessage[];
  /** The id of the message to regenerate. It is replaced, together with all messages after it. */
  readonly regenerate?: string | undefined;
  /** True if the messages come from the author's code: all of them are new, and none is forged. */
  readonly trusted?: boolean | undefined;
  /** The name of a turn that may run again, such as a step id. A second run replaces the messages of the first. */
  readonly turnName?: string | undefined;
  /** The time of the messages, if the turn runs again. @default now */
  readonly at?: number | undefined;
  /** The decisions of the server about calls that wait. There are no messages beside them. */
  readonly decisions?: readonly Decision[] | undefined;
  /** The outcomes of the continued calls, if the turn runs again. */
  readonly outcomes?: readonly DecidedCall[] | undefined;
  /** The ends of executions that calls wait for, from the server. There are no messages beside them. */
  readonly ended?: readonly EndedCall[] | undefined;
  /** The results of those calls, if the turn runs again. */
  readonly results?: readonly ModelMessage[] | undefined;
  /** The user whose messages decide about waiting calls. @default none, approvals are refused */
  readonly decider?: Decider | undefined;
}

/** The user whose messages decide about waiting calls. */
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
/** The data with which a client resumes the execution of a waiting call. */
export interface CallResume {
  readonly executionId: string;
  readonly data: unknown;
}
/** The changes to waiting calls and to their message. */
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

/** The messages before an answer that replaces others: the stored ones before `until`, then the new ones. */
export interface ShownMessages {
  readonly until: string;
  readonly fresh: readonly StoredUiMessage[];
}

/** A turn without a stored conversation. */
export interface FreeTurn {
  readonly type: "free";
  readonly prompt: ModelMessage[];
  /** The id of the assistant message that the answer continues, if the client sent results of its own tools. */
  readonly continues: string | undefined;
}

/** A turn without storage that continues an answer. */
export interface ContinuedTurn {
  readonly type: "continued";
  readonly prompt: ModelMessage[];
  /** The messages that the answer continues. */
  readonly models: readonly ModelMessage[];
  readonly calls: ContinuedCalls;
}

/** A turn of a stored conversation. */
export interface StoredTurn {
  readonly type: "stored";
  readonly prompt: ModelMessage[];
  /** The id of the stored answer that it continues, if it does. */
  readonly continues: string | undefined;
  /** The parts of that answer, with the results from the client. */
  readonly before: UiParts | undefined;
  /** The calls of that answer. */
  readonly calls: ContinuedCalls;
  /** The outcomes of these calls, and the results of executions. */
  readonly outcomes: readonly DecidedCall[] | undefined;
  readonly results: readonly ModelMessage[] | undefined;
  /** The id of the user's message, and its time. */
  readonly questionId: string | undefined;
  readonly at: number;
  /** The messages that a reader is shown before the answer. Undefined if they are the conversation. */
  readonly shown: ShownMessages | undefined;
  /** True if only the last message of the client is needed: the others are stored, or count for nothing. */
  readonly isLastEnough: boolean;
  /**
   * Stores the messages and decisions of the user, before the answer. Undefined if there are none, or if they replace
   * others.
   */
  readonly storeQuestion: (() => Promise<void>) | undefined;
  /** Stores the messages of the turn. Returns the calls that wait. */
  store(answer: TurnAnswer): Promise<readonly PendingCall[]>;
}

/** Decisions after which the answer still waits: no turn begins. */
export interface UndecidedTurn {
  readonly type: "undecided";
  readonly waiting: WaitingAnswer;
  readonly storeQuestion: () => Promise<void>;
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
  /** Called with the number of omitted model messages, if `maxBytes` left any out. */
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
  /** The changes to waiting calls and to the last stored message, which has them. */
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
