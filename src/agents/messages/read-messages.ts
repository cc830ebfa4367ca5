import type { ModelMessage } from "ai";
import type { ConversationKey, Conversations, MessageRow, PageOptions } from "../../engine/contract/conversations.ts";
import { isContinued, toMessageId } from "../../engine/stored/message-rows.ts";
import { addModels } from "./from-models.ts";
import { yieldAfter } from "./long-text.ts";
import type { StoredUiMessage } from "./ui-message.ts";

/** Reads the messages of a conversation, the oldest first, as `useChat` takes them. */
export async function readMessages(
  conversations: Conversations,
  key: ConversationKey,
  options: PageOptions,
): Promise<StoredUiMessage[]> {
  const groups: MessageRow[][] = [];
  for (const row of await conversations.read(key, options)) {
    const last = groups.at(-1);
    if (last && isContinued(toKind(row), toKind(last.at(-1)!))) last.push(row);
    else groups.push([row]);
  }
  const messages: StoredUiMessage[] = [];
  for (const group of groups) {
    messages.push(toMessage(group));
    for (const { ui, models } of group) await yieldAfter(ui ?? models!); // a row without `ui` has `models`
  }
  // The SDK accepts no message without parts.
  return messages.filter(({ parts }) => parts.length > 0);
}

const toKind = ({ id, role, ui }: MessageRow) => ({ id, role, isOld: ui === undefined });

function toMessage(rows: readonly MessageRow[]): StoredUiMessage {
  const [{ number, id = toMessageId(number), role, ui }] = rows as [MessageRow]; // a group has a row
  // The casts are safe: this is what was stored.
  if (ui !== undefined) return JSON.parse(ui) as StoredUiMessage;
  const models = rows.map((row) => JSON.parse(row.models!) as ModelMessage); // a row without `ui` has `models`
  return {
    id,
    role: role === "user" ? "user" : "assistant",
    metadata: { createdAt: null },
    parts: addModels([], models),
  };
}
