import { ask, path, toQuery } from "../../../server/api.ts";
import type { ChatMessage } from "./chat-state.ts";
import type { Conversation } from "../conversation.ts";

/** A conversation with a page of its messages. While a turn runs, they end before its answer. */
export interface OpenConversation extends Omit<Conversation, "running"> {
  readonly messages: readonly ChatMessage[];
  readonly hasMore: boolean;
  /** The answer that is being made. */
  readonly running: { readonly messageId: string } | null;
}

interface ReadOptions {
  /** The user of the conversation, if there is no authentication provider. */
  readonly userId: string | undefined;
  readonly before: string | undefined;
  readonly signal: AbortSignal;
}

/** Reads the last messages, or those before one of them. */
export function readConversation(
  agentId: string,
  id: string,
  { userId, before, signal }: ReadOptions,
): Promise<OpenConversation> {
  return ask(path`/agents/${agentId}/conversations/${id}` + toQuery({ userId, before }), { signal });
}

/** Returns a text that changes with the conversation. */
export const toMark = ({ updatedAt, messageCount, title, running }: OpenConversation): string =>
  JSON.stringify([updatedAt, messageCount, title, running]);

/**
 * Returns the messages of the server, after the earlier pages that are shown. The answer in progress stays until its
 * stream replaces it. So does the message `sent`, which the server does not have.
 */
export function mergeMessages(
  shown: readonly ChatMessage[],
  { messages, running }: OpenConversation,
  sent: string | undefined,
): { readonly messages: ChatMessage[]; readonly hasEarlier: boolean } {
  const first = shown.findIndex(({ id }) => id === messages[0]?.id);
  const earlier = first > 0 ? shown.slice(0, first) : [];
  const known = new Set(messages.map(({ id }) => id));
  const kept = shown.filter(({ id }) => !known.has(id) && (id === running?.messageId || id === sent));
  return { messages: [...earlier, ...messages, ...kept], hasEarlier: earlier.length > 0 };
}
