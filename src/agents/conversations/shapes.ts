import * as v from "valibot";
import { toIso } from "../../core/iso-time.ts";
import type { ConversationSummary, ConversationWithMessages } from "../../engine/runtime.ts";
import type { StoredConversation } from "../../engine/stored/stored-conversation.ts";
import { OptionalId } from "../../http/input.ts";

/** The query of a request about conversations. */
export const UserQuery: v.ObjectSchema<{ readonly userId: v.GenericSchema<string | undefined> }, undefined> = v.object({
  userId: v.pipe(
    OptionalId,
    v.description(
      "The user. With an authentication provider, another user than the caller needs the right by `authorize`.",
    ),
  ),
});

const item = {
  id: v.string(),
  title: v.string(),
  createdAt: v.nullable(v.string()),
  updatedAt: v.string(),
  messageCount: v.number(),
  isOwn: v.boolean(),
};
export const ConversationShape: v.GenericSchema<ConversationSummary> = v.pipe(
  v.object({ ...item, running: v.boolean() }),
  v.title("Conversation"),
);

/** A message as it was stored. It is not checked again. */
const UiMessage = v.pipe(
  v.object({
    id: v.string(),
    role: v.string(),
    parts: v.array(v.unknown()),
    metadata: v.optional(v.unknown()),
  }),
  v.title("StoredMessage"),
);
export const OpenConversationShape: v.GenericSchema<ConversationWithMessages> = v.pipe(
  v.object({
    ...item,
    messages: v.array(UiMessage),
    hasMore: v.boolean(),
    running: v.nullable(v.object({ messageId: v.string() })),
  }),
  v.title("ConversationWithMessages"),
);

export function toView(conversation: StoredConversation, isOwn: boolean): ConversationSummary {
  const { id, title, createdAt, updatedAt, messageCount, isRunning } = conversation;
  return {
    id,
    title,
    createdAt: createdAt === null ? null : toIso(createdAt),
    updatedAt: toIso(updatedAt),
    messageCount,
    isOwn,
    running: isRunning,
  };
}
