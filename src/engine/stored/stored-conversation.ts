import { badRequest, ServeError } from "../../core/error.ts";

/** A user, and the agent whose conversations are meant. */
export interface ConversationOwner {
  readonly agentId: string;
  readonly userId?: string | undefined;
}
export interface ConversationKey extends ConversationOwner {
  readonly conversationId: string;
}

/** A conversation without its messages. */
export interface StoredConversation {
  readonly id: string;
  readonly title: string;
  /** The time of its first turn. Null: not known. */
  readonly createdAt: number | null;
  /** The time at which a turn last stored a message. */
  readonly updatedAt: number;
  /** The number of messages, as a client sees them. */
  readonly messageCount: number;
  /** True if a turn runs or waits. */
  readonly isRunning: boolean;
  /** The place in the list of its owner. */
  readonly cursor: string;
}

/** A page of conversations between one user and one agent, newest first by their creation. */
export interface ConversationFilter extends ConversationOwner {
  readonly limit: number;
  /** The cursor of the conversation before the page. @default the newest is the first */
  readonly after?: string | undefined;
}
export interface ConversationPage {
  readonly conversations: readonly StoredConversation[];
  readonly hasMore: boolean;
}

/** A new title, and the one that it may replace. @default it replaces every title */
export interface Renaming {
  readonly title: string;
  readonly from?: string | undefined;
}

/** Max characters of a title made from a message, and of a given one. */
const maxWords = 60;
export const maxTitle = 200;

/** Returns the first words of a text: at most 60 characters, cut at a word. */
export function toTitle(text: string): string {
  const words = text
    .slice(0, 10 * maxTitle)
    .trim()
    .split(/\s+/u);
  let title = "";
  for (const word of words) {
    const longer = title === "" ? word : `${title} ${word}`;
    if (lengthOf(longer) > maxWords) break;
    title = longer;
  }
  // A first word that is longer is cut.
  return title || [...(words[0] ?? "")].slice(0, maxWords).join("") || untitled;
}
const untitled = "New conversation";

/** The number of characters, where a surrogate pair is one. */
export const lengthOf = (text: string): number => [...text].length;

export const invalidCursor = (): ServeError =>
  badRequest("Invalid query: cursor: expected the nextCursor of a previous response");

/** The answer to turns of a conversation that was deleted. */
export const deletedConversation = (): ServeError => new DeletedConversationError();
export class DeletedConversationError extends ServeError {
  constructor() {
    super(409, "The conversation was deleted");
  }
}

/** The text by which a backend finds a conversation. */
export const toKeyText = ({ agentId, userId, conversationId }: ConversationKey): string =>
  JSON.stringify([agentId, userId ?? null, conversationId]);
/** The text by which a backend finds the conversations of a user with an agent. */
export const toOwnerText = ({ agentId, userId }: ConversationOwner): string =>
  JSON.stringify([agentId, userId ?? null]);
