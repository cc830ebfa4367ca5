import * as v from "valibot";
import { notFound } from "../../core/error.ts";
import { cut } from "../../core/cut.ts";
import { OptionalId } from "../../http/given-id.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import { wholeNumber } from "../../http/whole-number.ts";
import type { ConversationKey } from "../../engine/conversations.ts";
import type { Agents } from "../agents.ts";
import { findAgent, type AgentsOfSnapshot } from "../find-agent.ts";
import { listConversations, toUserId } from "./access.ts";
import { findOwn, UserQuery, type OwnConversation, type OwnRequest } from "./find-own.ts";
import { isTitle } from "./name-conversation.ts";
import { readConversation } from "./read-conversation.ts";
import { ConversationShape, OpenConversationShape, toView } from "./shapes.ts";

const Title = v.pipe(
  v.string(),
  v.check(isTitle, "expected 1 to 200 characters"),
  v.transform((title) => title.trim()),
);
const errors = {
  404: "Agent or conversation not found",
  503: "Storage cannot be written, or the server is shutting down",
};

/** The routes about the conversations of a caller with an agent. */
export function conversationRoutes(agents: Agents): readonly Route<AgentsOfSnapshot>[] {
  const { conversations } = agents;
  const path = "/agents/:id/conversations/:conversationId" as const;

  const find = (request: OwnRequest): Promise<OwnConversation> => findOwn(conversations, request);

  return [
    defineRoute({
      method: "GET",
      path: "/agents/:id/conversations",
      summary: "List the conversations of the caller with an agent, newest first",
      description:
        "The order is that of their creation, so that a new message moves none of them. `cursor` is the `nextCursor` of the page before.",
      access: "protected",
      action: "conversation.read",
      yields: true,
      query: v.object({
        ...UserQuery.entries,
        limit: v.optional(wholeNumber(1, 200, "expected 1 to 200")),
        cursor: v.optional(v.string()),
      }),
      responses: { 200: v.object({ items: v.array(ConversationShape), nextCursor: v.nullable(v.string()) }) },
      errors: { 404: "Agent not found", 503: errors[503] },
      async handle({ params, query, identity, snapshot }) {
        const { limit = 50, cursor } = query;
        const agentId = findAgent(snapshot, params.id).definition.id;
        const after = cursor === undefined ? undefined : Buffer.from(cursor, "base64url").toString();
        const filter = { agentId, userId: toUserId(query, identity), limit, after };
        const page = await listConversations(conversations, { identity, snapshot }, filter);
        return {
          items: page.conversations.map(toView),
          nextCursor: page.next === undefined ? null : toCursor(page.next),
        };
      },
    }),
    defineRoute({
      method: "GET",
      path,
      summary: "Read a conversation",
      description:
        "`messages` are the last 100, oldest first, as `useChat` takes them, and at most 8 MiB. `before` is the id of the first message that the client has: the page ends before it. While a turn runs, `messages` end before its answer, and `running` has the id of that answer, which `GET /agents/:id/chat/:conversationId/stream` sends.",
      access: "protected",
      action: "conversation.read",
      yields: true,
      query: v.object({ ...UserQuery.entries, before: OptionalId }),
      responses: { 200: OpenConversationShape },
      errors,
      find,
      handle: ({ found: { key, conversation }, query }) => readConversation(agents, key, conversation, query.before),
    }),
    defineRoute({
      method: "PATCH",
      path,
      summary: "Change the title of a conversation",
      description: "A title has 1 to 200 characters.",
      access: "protected",
      action: "conversation.write",
      yields: true,
      query: UserQuery,
      body: v.object({ title: Title }),
      responses: { 200: ConversationShape },
      errors: { 400: "The title is invalid", ...errors },
      find,
      async handle({ found: { key, conversation }, body: { title } }) {
        if (!(await conversations.rename(key, { title }))) throw missing(key);
        return toView({ ...conversation, title });
      },
    }),
    defineRoute({
      method: "DELETE",
      path,
      summary: "Delete a conversation",
      description:
        "Stops the turn that runs, and answers those that wait with 409. Removes the messages and their files. Executions of workflows keep the results of their steps.",
      access: "protected",
      action: "conversation.delete",
      yields: true,
      query: UserQuery,
      responses: { 200: v.object({ deleted: v.literal(true) }) },
      errors,
      find,
      async handle({ found: { key } }) {
        const isRemoved = await conversations.remove(key);
        agents.modelCalls?.remove(key);
        if (!isRemoved) throw missing(key);
        return { deleted: true as const };
      },
    }),
  ];
}

const missing = ({ conversationId }: ConversationKey): Error =>
  notFound(`Conversation ${cut(conversationId)} not found`);
const toCursor = (place: string): string => Buffer.from(place).toString("base64url");
