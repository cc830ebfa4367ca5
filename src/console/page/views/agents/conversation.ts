import { signal } from "@preact/signals";

/** A conversation in the list of the server. */
export interface Conversation {
  readonly id: string;
  readonly title: string;
  readonly createdAt: string | null;
  readonly updatedAt: string;
  readonly messageCount: number;
  /** False for a conversation of another user. */
  readonly isOwn: boolean;
  readonly running: boolean;
}

/** Raised when this page has changed a conversation, or has seen a change: lists are read again. */
export const conversationChanges = signal(0);

/** The conversations of this page that have no message yet. The server does not know them. */
const fresh = new Set<string>();

/** Returns the id of a conversation that begins with its first message. */
export function createConversation(agentId: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  const id = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  fresh.add(toKey(agentId, id));
  return id;
}
export const isNewConversation = (agentId: string, id: string): boolean => fresh.has(toKey(agentId, id));
export function wasStored(agentId: string, id: string): void {
  fresh.delete(toKey(agentId, id));
}
const toKey = (agentId: string, id: string): string => `${agentId} ${id}`;
