import type { PageOptions } from "../../engine/contract/conversations.ts";
import type { ConversationWithMessages } from "../../engine/runtime.ts";
import type { Agents } from "../agents.ts";
import { readMessages } from "../messages/read-messages.ts";
import type { StoredUiMessage } from "../messages/ui-message.ts";
import type { RunningTurn } from "../turns/turns.ts";
import type { AskedConversation } from "./access.ts";
import { toView } from "./shapes.ts";

/** Max messages of a page. */
const maxMessages = 100;

/** Reads a page of a conversation. While a turn runs, it ends before the answer of that turn. */
export async function readConversation(
  agents: Pick<Agents, "conversations" | "turns">,
  { key, conversation, isOwn }: AskedConversation,
  before: string | undefined,
): Promise<ConversationWithMessages> {
  const { conversations, turns } = agents;
  const read = (options: PageOptions): Promise<StoredUiMessage[]> => readMessages(conversations, key, options);
  for (;;) {
    const turn = await turns.findAnywhere(key);
    const messages = await readBefore(read, turn, before);
    const [first] = messages;
    const hasMore = first !== undefined && (await conversations.read(key, { before: first.id, limit: 1 })).length > 0;
    if ((await turns.findAnywhere(key))?.id !== turn?.id) continue; // its answer may have replaced messages
    return { ...toView(conversation, isOwn), messages, hasMore, running: turn ? { messageId: turn.answerId } : null };
  }
}

async function readBefore(
  read: (options: PageOptions) => Promise<StoredUiMessage[]>,
  turn: RunningTurn | undefined,
  before: string | undefined,
): Promise<StoredUiMessage[]> {
  const { until, fresh = [] } = turn?.shown ?? {};
  const index = fresh.findIndex(({ id }) => id === before);
  const isStored = before !== undefined && index < 0;
  const stored = await read({ before: isStored ? before : until, limit: maxMessages });
  const answer = stored.findIndex(({ id }) => id === turn?.answerId);
  const shown = answer < 0 ? stored : stored.slice(0, answer);
  return isStored ? shown : [...shown, ...(index < 0 ? fresh : fresh.slice(0, index))].slice(-maxMessages);
}
