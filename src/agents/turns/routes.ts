import * as v from "valibot";
import type { ConversationKey } from "../../engine/contract/conversations.ts";
import { OptionalId } from "../../http/input.ts";
import { defineRoute, events, nothing, type Route } from "../../http/route.ts";
import type { Agents } from "../agents.ts";
import { callErrors, ChatChunk, toAttached, toChatStream } from "../call-routes.ts";
import { findAsked, toAskedUser, type ConversationRequest } from "../conversations/access.ts";
import { UserQuery } from "../conversations/shapes.ts";
import { findCallable, type AgentsOfSnapshot } from "../find-agent.ts";

export function turnRoutes({ conversations, turns }: Agents): readonly Route<AgentsOfSnapshot>[] {
  return [
    defineRoute({
      method: "GET",
      path: "/agents/:id/chat/:conversationId/stream",
      summary: "Read the running answer of a conversation, from its beginning",
      description:
        "For `useChat({ resume: true })`. The response is a 204 if no turn runs. For 30 s after its end, an answer is still sent if `after` is the id of the client's last message, and not of the answer. `sdk` is the major version of the client's `ai`: chunks that 5 or 6 do not know are left out.",
      access: "protected",
      action: "agent.call",
      others: "conversation.others.read",
      yields: true,
      query: v.object({ ...UserQuery.entries, after: OptionalId, sdk: v.optional(v.picklist(["5", "6", "7"]), "7") }),
      responses: { 200: events(ChatChunk), 204: nothing },
      errors: callErrors,
      find: findKey,
      handle: ({ found: key, query: { after, sdk } }) =>
        toChatStream(async (signal) => toAttached(await turns.attach(key, { after, signal }), sdk)),
    }),
    defineRoute({
      method: "POST",
      path: "/agents/:id/conversations/:conversationId/stop",
      summary: "Stop the running turn of a conversation",
      description:
        "The answer so far is stored. Waiting turns continue. `messageId` is the id of the answer or of the user's message: another turn is not stopped.",
      access: "protected",
      action: "agent.call",
      others: "conversation.others.write",
      yields: true,
      query: UserQuery,
      body: v.object({ messageId: OptionalId }),
      responses: { 200: v.object({ stopped: v.boolean(), messageId: v.nullable(v.string()) }) },
      errors: {
        404: callErrors[404],
        409: "The turn of that message has ended",
        503: "The turn was stopped, but storage cannot be written, or the server is shutting down",
      },
      find: findKey,
      handle: ({ found: key, body }) => turns.stop(key, body.messageId),
    }),
  ];

  /** Returns the conversation of a request. One of another user must exist; one of the caller may be new. */
  async function findKey(request: ConversationRequest): Promise<ConversationKey> {
    const { params, query, identity } = request;
    const { userId, isOther } = toAskedUser(query, identity);
    if (isOther) return (await findAsked(conversations, request)).key;
    const { definition } = await findCallable(request);
    return { agentId: definition.id, userId, conversationId: params.conversationId };
  }
}
