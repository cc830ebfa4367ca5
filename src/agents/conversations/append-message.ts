import { newId } from "../../core/id.ts";
import { toIso } from "../../core/iso-time.ts";
import type {
  AdmitHistory,
  ConversationKey,
  Conversations,
  StoredMessage,
  Turn,
} from "../../engine/contract/conversations.ts";
import { toStored } from "../call/history/draft.ts";
import { yieldAfter } from "../messages/long-text.ts";
import type { Author, StoredUiMessage } from "../messages/ui-message.ts";
import { missingConversation } from "./access.ts";

/** A message that a person adds to a conversation. */
export interface PersonMessage {
  /** The id. A message is stored once per id. @default a new one */
  readonly id?: string | undefined;
  readonly text: string;
  readonly author: Author;
}
interface AppendParts {
  readonly conversations: Conversations;
  /** Awaited before messages of the conversation are loaded. */
  readonly admit: AdmitHistory;
  /** Ends the wait for earlier turns. */
  readonly signal: AbortSignal;
  readonly now: () => number;
}

/**
 * Stores the message of a person as the last one, after the earlier turns. It begins no turn: the next one shows it to
 * the model. Resolves to its id when it is durable, and rejects with 404 if there is no such conversation.
 *
 * An answer with waiting calls stays the last message, so that it can be continued: the message is stored before it.
 */
export async function appendMessage(
  { conversations, admit, signal, now }: AppendParts,
  key: ConversationKey,
  { id, text, author }: PersonMessage,
): Promise<string> {
  const turn = await conversations.open(key, { signal });
  try {
    if (id !== undefined && (await turn.history(id, admit)).found) return id;
    const name = author.name ?? (toShownName(author.id) || "unknown");
    const message = await toStored({
      id: id ?? newId(),
      role: "user",
      parts: [{ type: "text", text }],
      models: [{ role: "user", content: `[Message from ${name}] ${text}` }],
      metadata: { createdAt: toIso(now()), author },
    });
    const last = (await conversations.read(key, { limit: 1 })).at(-1);
    if (!last) throw missingConversation(key);
    // A message from an older release has no UI message.
    const waiting = last.ui === undefined ? undefined : await readWaiting(turn, last.ui, admit);
    await (waiting ? turn.store([message, waiting], waiting.id) : turn.store([message]));
    return message.id;
  } finally {
    void turn.close();
  }
}

/** Returns the stored form of the last message. Undefined if none of its tool calls is waiting. */
async function readWaiting(turn: Turn, ui: string, admit: AdmitHistory): Promise<StoredMessage | undefined> {
  const { id, parts, metadata } = JSON.parse(ui) as StoredUiMessage; // as it was stored
  await yieldAfter(ui);
  if (!parts.some(isOpen)) return undefined;
  const row = (await turn.history(undefined, admit)).messages.at(-1);
  if (row?.id !== id) return undefined;
  const { length: count } = JSON.parse(row.models) as readonly unknown[]; // a message with a UI message has an array
  const createdAt = metadata?.createdAt ?? null;
  return {
    id,
    role: "assistant",
    ui,
    models: row.models,
    count,
    at: createdAt === null ? null : Date.parse(createdAt),
  };
}

/** Returns true for a tool call without a result. A provider gives its own calls their results. */
const isOpen = (part: StoredUiMessage["parts"][number]): boolean =>
  "toolCallId" in part && !part.state.startsWith("output-") && !part.providerExecuted;

/** Returns the author of a message. A name without visible characters is left out. */
export function toAuthor(id: string, name: unknown): Author {
  const shown = typeof name === "string" ? toShownName(name) : "";
  return { id, ...(shown !== "" && { name: shown }) };
}

/** Max characters of a name. */
const maxName = 80;

/** Returns a name for the model. It cannot end its brackets or its line. */
function toShownName(name: string): string {
  const text = name.replaceAll(/[\p{C}\p{Z}[\]\\]+/gu, " ").trim();
  return [...text].slice(0, maxName).join("").trim();
}
