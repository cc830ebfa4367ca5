import * as v from "valibot";
import type { Agents } from "../../agents/agents.ts";
import { fromCursor, toNextCursor } from "../../agents/allowed-page.ts";
import { listConversations, missingConversation } from "../../agents/conversations/access.ts";
import { forbidden } from "../../core/access/authorizer.ts";
import { readConversation } from "../../agents/conversations/read-conversation.ts";
import { unchecked } from "../../core/caller.ts";
import { OptionalId } from "../../http/input.ts";
import { ServeError, badRequest } from "../../core/error.ts";
import type { ConversationKey } from "../../engine/contract/conversations.ts";
import type { Agent } from "../../engine/definition/reference.ts";
import type { RuntimeConversations } from "../../engine/runtime.ts";
import { toAuthor } from "../../agents/conversations/append-message.ts";
import { toView } from "../../agents/conversations/shapes.ts";
import { findAgent } from "../../agents/find-agent.ts";
import { isUserId } from "../../auth/user.ts";
import type { Snapshot } from "../../config/snapshot.ts";
import { checkOptions, idOf } from "./arguments.ts";

export interface RuntimeConversationsParts {
  readonly agents: Agents;
  readonly ready: () => Promise<unknown>;
  readonly snapshot: () => Snapshot;
  /** The user that the runtime acts for. */
  readonly user: { readonly isServer: boolean; readonly userId: string | undefined };
  /** The conversation of the agent call that has the runtime. An append to it would wait for itself. */
  readonly turn: Partial<ConversationKey> | undefined;
  /** Does work for a step again, while storage cannot be reached. */
  readonly persist: <T>(work: () => Promise<T>) => Promise<T>;
  /** Returns the id of the next message: the same one in a step that runs again. */
  readonly nextId: () => string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Max bytes of a text. */
  readonly maxBytes: number;
}

const ListOptions = v.object({ userId: OptionalId, cursor: v.optional(v.string()) });
const GetOptions = v.object({ userId: OptionalId, before: OptionalId });
const AppendOptions = v.object({
  userId: OptionalId,
  text: v.pipe(
    v.string(),
    v.check((text) => text.trim() !== "", "expected a text"),
  ),
  author: v.object({
    id: v.custom<string | number>(isUserId, "expected a user id"),
    name: v.optional(v.string()),
  }),
});

/** The conversations of `runtime`. Code is trusted: `authorize` is not asked, but a user reaches only their own. */
export function createRuntimeConversations(parts: RuntimeConversationsParts): RuntimeConversations {
  const { agents, ready, snapshot, user, persist } = parts;
  const { conversations } = agents;

  /** Returns the user that a call is about. */
  function toUserId(asked: string | undefined): string | undefined {
    if (!user.isServer && asked !== undefined && asked !== user.userId) throw forbidden();
    return asked ?? user.userId;
  }
  function toKey(agent: Agent | string, id: unknown, asked: string | undefined): ConversationKey {
    if (typeof id !== "string") throw badRequest("runtime.conversations: expected the id of a conversation");
    return { agentId: agentIdOf(agent), userId: toUserId(asked), conversationId: id };
  }
  const agentIdOf = (agent: Agent | string): string => findAgent(snapshot(), idOf(agent, "an agent")).definition.id;
  const isOwn = ({ userId }: { readonly userId?: string | undefined }): boolean =>
    userId !== undefined && userId === user.userId;

  return {
    async list(agent, options = {}) {
      const { userId: asked, cursor } = await checkOptions(ListOptions, options);
      await ready();
      const filter = { agentId: agentIdOf(agent), userId: toUserId(asked), limit: 50, after: fromCursor(cursor) };
      const asCode = { identity: unchecked, snapshot: { authorizer: undefined }, isOther: false };
      const page = await listConversations(conversations, asCode, filter);
      return { items: page.rows.map((one) => toView(one, isOwn(filter))), nextCursor: toNextCursor(page.next) };
    },
    async get(agent, id, options = {}) {
      const { userId, before } = await checkOptions(GetOptions, options);
      await ready();
      const key = toKey(agent, id, userId);
      const conversation = await conversations.find(key);
      if (!conversation) throw missingConversation(key);
      return readConversation(agents, { key, conversation, isOwn: isOwn(key) }, before);
    },
    async append(agent, id, options) {
      const messageId = parts.nextId(); // before anything is awaited: in the order of the calls
      const { userId, text, author } = await checkOptions(AppendOptions, options);
      if (Buffer.byteLength(text) > parts.maxBytes)
        throw new ServeError(413, `The text is over ${parts.maxBytes} bytes, limits.stepValueBytes`);
      await ready();
      const key = toKey(agent, id, userId);
      const { turn } = parts;
      if (turn?.agentId === key.agentId && turn.conversationId === id && turn.userId === key.userId)
        throw new ServeError(409, "conversations.append(): the turn that calls it runs in this conversation");
      if (!(await conversations.find(key))) throw missingConversation(key);
      const message = { id: messageId, text, author: toAuthor(String(author.id), author.name) };
      const { signal = new AbortController().signal } = parts;
      return { messageId: await persist(() => agents.append(key, message, { signal })) };
    },
    async delete(agent, id, options = {}) {
      const { userId } = await checkOptions(ListOptions, options);
      await ready();
      const key = toKey(agent, id, userId);
      const isRemoved = await persist(() => conversations.remove(key));
      agents.calls.modelCalls?.remove(key);
      if (!isRemoved) throw missingConversation(key);
    },
  };
}
