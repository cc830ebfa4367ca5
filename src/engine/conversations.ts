import type { JsonText } from "../core/json.ts";

/** What was said, with which agent and by whom; kept by a backend. */
export interface Conversations {
  /**
   * The next turn of a conversation. Turns are put in order: it resolves when those before it have ended. It must be
   * closed.
   */
  open(key: ConversationKey, options: TurnOptions): Promise<Turn>;
}
export interface ConversationKey {
  readonly agentId: string;
  readonly userId?: string | undefined;
  readonly conversationId: string;
}
export interface TurnOptions {
  /** A turn that may be run again under this name replaces what it stored before. */
  readonly name?: string | undefined;
  /** Gives up waiting. */
  readonly signal: AbortSignal;
}

export interface Turn {
  /** What was said before; `until` names the message that this turn begins at, should it be stored already. */
  history(until?: string): Promise<History>;
  /** Stores all of it or nothing, in place of whatever came from `until` on. Durable when it resolves. */
  store(messages: readonly StoredMessage[], until?: string): Promise<void>;
  close(): void;
}
export interface History {
  /** Whether anything of this conversation is stored at all. */
  readonly stored: boolean;
  /** Whether the message that the turn begins at is stored; if not, it begins after all that is. */
  readonly found: boolean;
  /** The last messages: those of the window, and further back to one of the user's, as far as the bounds allow. */
  readonly messages: readonly StoredMessage[];
}
export interface StoredMessage {
  /** As the client knows it. Several messages for the model may be one for the client. */
  readonly id?: string | undefined;
  readonly role: string;
  readonly body: JsonText;
}

/** How many messages the model is shown. */
export const windowSize = 40;
/** How far back one turn may reach, when it goes on and on with results of the client's own tools. */
export const maxMessages = 400;
/** How much of a conversation is read for one turn. */
export const maxBytes: number = 4 * 1024 * 1024;
