import type { JsonText } from "../../core/json.ts";
import type {
  CallFilter,
  CallPage,
  DecidedCall,
  FoundCall,
  PendingCall,
  WaitingCalls,
} from "../stored/pending-calls.ts";
import type {
  ConversationFilter,
  ConversationKey,
  ConversationPage,
  Renaming,
  StoredConversation,
} from "../stored/stored-conversation.ts";

export type { ConversationKey } from "../stored/stored-conversation.ts";

/** The stored conversations of users with agents. */
export interface Conversations {
  /** Opens the next turn of a conversation. Turns run one after the other: it resolves when those before it are closed. */
  open(key: ConversationKey, options: TurnOptions): Promise<Turn>;
  /** The turns that other processes run. Undefined on a backend for one process. */
  readonly elsewhere?: TurnsElsewhere | undefined;
  /** Reads messages of a conversation, the oldest first: the last ones, or those before a message. Does not wait for turns. */
  read(key: ConversationKey, options: PageOptions): Promise<readonly MessageRow[]>;
  /** A page of conversations. */
  list(filter: ConversationFilter): Promise<ConversationPage>;
  find(key: ConversationKey): Promise<StoredConversation | undefined>;
  /** Gives a conversation a title. Durable when it resolves, to false if there is none, or it has another title. */
  rename(key: ConversationKey, renaming: Renaming): Promise<boolean>;
  /**
   * Deletes a conversation: its messages, its turns, and what they have recorded. Those that run or wait end with
   * `deletedConversation`. Durable when it resolves, to false if there is no such conversation.
   */
  remove(key: ConversationKey): Promise<boolean>;
  /** A call that waits or has waited, by its id. `key` is its conversation, if that is known: then it is found faster. */
  findCall(id: string, key?: ConversationKey): Promise<FoundCall | undefined>;
  /** A page of the calls that wait. */
  listCalls(filter: CallFilter): Promise<CallPage>;
  /** A page of the calls that wait for an execution, from a cursor on. Calls of running executions may be missing. */
  executionCalls(after: string | undefined, limit: number): Promise<CallPage>;
  /**
   * Calls the listener in one process at the end of an execution that a call waits for, until it resolves in some process.
   * Undefined where the changes of the engine have every end.
   */
  readonly onExecutionEnd?: ((listener: ExecutionEndListener) => void) | undefined;
}
export type ExecutionEndListener = (executionId: string, key: ConversationKey) => Promise<void>;
export interface StoreOptions {
  /** The title, if the conversation is new. */
  readonly title?: string | undefined;
  /** True if the turn begins with it: it is refused while the store cannot be written. @default true without a name */
  readonly isBeginning?: boolean;
  /** True if the turn ends with it: the next one may begin at once. */
  readonly isLast?: boolean;
  /** The stored messages that it changes, in their places. */
  readonly changed?: readonly ChangedMessage[] | undefined;
  /** The outcomes of calls that have waited. */
  readonly decided?: readonly DecidedCall[] | undefined;
  /** The calls of the conversation that wait from now on. @default they stay as they are */
  readonly waiting?: WaitingCalls | undefined;
}
/** The new texts of a stored message. Without `models` those stay. */
export interface ChangedMessage extends Pick<StoredMessage, "id" | "ui"> {
  readonly models?: JsonText | undefined;
  readonly count?: number | undefined;
}
export interface TurnOptions {
  /** The name of a turn that may run again. A second run replaces the messages of the first. */
  readonly name?: string | undefined;
  /** True if the turn has not begun: it is refused when too many wait, or the store is full. @default true without a name */
  readonly isNew?: boolean | undefined;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

export interface Turn {
  /**
   * The messages before this turn. `until` is the id of its first message, which may be stored already. `admit` is awaited with
   * the bytes of the messages before they are loaded, or before those after the first 8 MiB are.
   */
  history(until?: string, admit?: AdmitHistory): Promise<History>;
  /** The calls of the conversation with these ids that wait or have waited. */
  calls(ids: readonly string[]): Promise<readonly PendingCall[]>;
  /** Stores the messages in one transaction, in place of all from `until` on. Durable when it resolves. */
  store(messages: readonly StoredMessage[], until?: string, options?: StoreOptions): Promise<void>;
  /**
   * Ends the turn. One that is unfinished continues in another process, or at the next start. Resolves when the other replicas
   * know it, or after a moment.
   */
  close(isUnfinished?: boolean): Promise<void> | void;
  /** Hears what other processes ask of a turn that began, until it is closed. Undefined on a backend for one process. */
  listen?: ((listener: TurnListener) => void) | undefined;
  /** Aborted when the turn is lost: its conversation was deleted, or this process was out of reach. */
  readonly signal?: AbortSignal | undefined;
}
/** The part of a running turn that other processes reach. */
export interface TurnListener {
  stop(): void;
  /** Reads the answer from its beginning, as it is made. */
  follow(signal: AbortSignal): AsyncGenerator<JsonText>;
}

/** The turns that other processes run. */
export interface TurnsElsewhere {
  /** The running turn of a conversation, else the last ended one. */
  last(key: ConversationKey): Promise<LastTurn | undefined>;
  /** Stops a turn that runs. Durable when it resolves; false if the turn ended. */
  stop(key: ConversationKey, turnId: string): Promise<boolean>;
  /**
   * Reads the answer of a turn that runs, from its beginning, in batches. Yields nothing if it ended. Throws if the turn is
   * continued by another process: its answer then begins anew.
   */
  follow(key: ConversationKey, turnId: string, signal: AbortSignal): AsyncGenerator<JsonText>;
}
export interface LastTurn extends TurnStart {
  readonly id: string;
  /** The time of its end. Undefined: it runs. */
  readonly endedAt?: number | undefined;
}
/** The messages of a turn that began. */
export interface TurnStart {
  readonly answerId: string;
  /** The id of the user's message, if it has one. */
  readonly questionId?: string | undefined;
}

export type AdmitHistory = (bytes: number) => Promise<void>;
export interface History {
  /** True if the conversation has any stored message. */
  readonly stored: boolean;
  /** True if the message `until` is stored. If not, the turn comes after all stored messages. */
  readonly found: boolean;
  /** The last messages: the window, extended back to a message of the user, within the bounds of `MessageWindow`. */
  readonly messages: readonly HistoryRow[];
  /** The number of model messages that `conversationBytes` has cut from the window. */
  readonly omitted: number;
}

/** One message of the client, as it is stored: for reading, and for the model. */
export interface StoredMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  /** The UI message. */
  readonly ui: JsonText;
  /** The model messages, an array. */
  readonly models: JsonText;
  /** The number of model messages. */
  readonly count: number;
  /** The time of creation. Null: not known. */
  readonly at: number | null;
}
/**
 * A stored row as a model is shown it. Before format 10 of the data file, a row was one model message: it has the role
 * `tool` as well, may have no id, and `models` is that message instead of an array.
 */
export interface HistoryRow {
  readonly id?: string | undefined;
  readonly role: string;
  readonly models: JsonText;
}
/** A stored row as a client is shown it: with `ui`, or with `models` if it is older than format 10. */
export interface MessageRow {
  /** The place in the conversation. */
  readonly number: number;
  readonly id?: string | undefined;
  readonly role: string;
  readonly ui?: JsonText | undefined;
  readonly models?: JsonText | undefined;
}
export interface PageOptions {
  /** The id of the message after the page. Without such a message the page is empty. @default the end */
  readonly before?: string | undefined;
  /** Max messages. A page ends before that at `maxPageBytes`, but has one message at least. */
  readonly limit: number;
}

/** The number of model messages that a model is shown. */
export const windowSize = 40;
/** The number of model messages that a window may be extended to, where a turn has many results of client-side tools. */
export const maxMessages = 400;
/** Max bytes of a message page. */
export const maxPageBytes: number = 8 * 1024 * 1024;
