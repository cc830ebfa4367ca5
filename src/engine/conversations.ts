import type { JsonText } from "../core/json.ts";

/** The stored conversations of users with agents. */
export interface Conversations {
  /**
   * Opens the next turn of a conversation. Turns run one after the other: it resolves when those before it are closed.
   * Restate: the conversation's object keeps the order across replicas.
   */
  open(key: ConversationKey, options: TurnOptions): Promise<Turn>;
}
export interface ConversationKey {
  readonly agentId: string;
  readonly userId?: string | undefined;
  readonly conversationId: string;
}
export interface TurnOptions {
  /** The name of a turn that may run again. A second run replaces the messages of the first. */
  readonly name?: string | undefined;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

export interface Turn {
  /** The messages before this turn. `until` is the id of its first message, which may be stored already. */
  history(until?: string): Promise<History>;
  /** Stores the messages in one transaction, in place of all from `until` on. Durable when it resolves. */
  store(messages: readonly StoredMessage[], until?: string): Promise<void>;
  close(): void;
  /** Aborted when the turn is lost, because this process was out of reach. Embedded: never, so there is none. */
  readonly signal?: AbortSignal | undefined;
}
export interface History {
  /** Whether the conversation has any stored message. */
  readonly stored: boolean;
  /** Whether the message `until` is stored. If not, the turn comes after all stored messages. */
  readonly found: boolean;
  /** The last messages: the window, extended back to a message of the user, within the bounds below. */
  readonly messages: readonly StoredMessage[];
}
export interface StoredMessage {
  /** The id that the client knows. Several model messages may be one message of the client. */
  readonly id?: string | undefined;
  readonly role: string;
  readonly body: JsonText;
}

/** The number of messages that a model is shown. */
export const windowSize = 40;
/** The number of messages that a window may be extended to, where a turn has many results of client-side tools. */
export const maxMessages = 400;
/** The bytes of a conversation that are read for one turn. */
export const maxBytes: number = 4 * 1024 * 1024;
