import { within } from "../../core/clock.ts";
import type { ConversationKey, Conversations } from "../../engine/contract/conversations.ts";
import { lengthOf, maxTitle } from "../../engine/stored/stored-conversation.ts";
import type { Operation } from "../call/operation.ts";
import type { StoredUiMessage } from "../messages/ui-message.ts";

/** A new conversation: its first message, and its title so far. */
interface NewConversation {
  readonly key: ConversationKey;
  readonly message: StoredUiMessage;
  readonly title: string;
}

/** Time limit of the hook. */
const maxMs = 30_000;

/** Gives a new conversation the title from the hook of its agent. A title that a user has set stays. Never rejects. */
export async function nameConversation(
  operation: Pick<Operation, "agent" | "context" | "runtime" | "clock">,
  conversations: Conversations,
  { key, message, title }: NewConversation,
): Promise<void> {
  const { agent, clock } = operation;
  const hook = agent.hooks.title;
  if (!hook) return;
  const { context, runtime } = operation; // made on first use
  try {
    const naming = (async () => hook({ agent, context, runtime, message: structuredClone(message), title }))();
    const onLate = (): never => {
      throw new Error(`No title within ${maxMs / 1_000} seconds`);
    };
    const given: unknown = await within(maxMs, naming, { onLate, keepAlive: false, clock });
    if (given === undefined) return;
    if (typeof given !== "string" || !isTitle(given))
      throw new TypeError(`Expected a title of 1 to ${maxTitle} characters`);
    await conversations.rename(key, { title: given.trim(), from: title });
  } catch (error) {
    context.logger.warn("The hook title failed: the title is the first words of the conversation", { error });
  }
}

/** Returns true for a text of 1 to 200 characters, without the space around it. */
export const isTitle = (text: string): boolean => text.trim() !== "" && lengthOf(text.trim()) <= maxTitle;
