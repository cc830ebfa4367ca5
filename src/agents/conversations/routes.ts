import * as v from "valibot";
import { forbidden } from "../../core/access/authorizer.ts";
import { Reply } from "../../http/envelope.ts";
import { OptionalId, wholeNumber } from "../../http/input.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import type { Agents } from "../agents.ts";
import { findAgent, type AgentsOfSnapshot } from "../find-agent.ts";
import { fromCursor, toNextCursor } from "../allowed-page.ts";
import {
  findAsked,
  listConversations,
  missingConversation,
  ownsAsked,
  toAskedUser,
  type AskedConversation,
  type ConversationRequest,
} from "./access.ts";
import { toAuthor } from "./append-message.ts";
import { isTitle } from "./name-conversation.ts";
import { readConversation } from "./read-conversation.ts";
import { ConversationShape, OpenConversationShape, toView, UserQuery } from "./shapes.ts";

const Title = v.pipe(
  v.string(),
  v.check(isTitle, "expected 1 to 200 characters"),
  v.transform((title) => title.trim()),
);
const Text = v.pipe(
  v.string(),
  v.check((text) => text.trim() !== "", "expected a text"),
);
const errors = {
  404: "Agent or conversation not found",
  503: "Storage cannot be written, or the server is shutting down",
};

export function conversationRoutes(agents: Agents): readonly Route<AgentsOfSnapshot>[] {
  const { conversations } = agents;
  const path = "/agents/:id/conversations/:conversationId" as const;

  const find = (request: ConversationRequest): Promise<AskedConversation> => findAsked(conversations, request);

  return [
    defineRoute({
      method: "GET",
      path: "/agents/:id/conversations",
      summary: "List the conversations of a user with an agent, newest first",
      description:
        "They are in order of creation, so a new message moves none of them. `cursor` is the `nextCursor` of the page before.",
      access: "protected",
      action: "conversation.read",
      others: "conversation.others.list",
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
        const user = toAskedUser(query, identity);
        const filter = { agentId, userId: user.userId, limit, after: fromCursor(cursor) };
        const page = await listConversations(conversations, { identity, snapshot, isOther: user.isOther }, filter);
        const isOwn = ownsAsked(user, identity);
        return { items: page.rows.map((one) => toView(one, isOwn)), nextCursor: toNextCursor(page.next) };
      },
    }),
    defineRoute({
      method: "GET",
      path,
      summary: "Read a conversation",
      description:
        "`messages` are the last 100, oldest first, as `useChat` takes them, and at most 8 MiB. `before` is the id of the client's first message: the page ends before it. While a turn runs, `messages` end before its answer, and `running` has the id of that answer. `GET /agents/:id/chat/:conversationId/stream` sends it.",
      access: "protected",
      action: "conversation.read",
      others: "conversation.others.read",
      yields: true,
      query: v.object({ ...UserQuery.entries, before: OptionalId }),
      responses: { 200: OpenConversationShape },
      errors,
      find,
      handle: ({ found, query }) => readConversation(agents, found, query.before),
    }),
    defineRoute({
      method: "POST",
      path: `${path}/messages`,
      summary: "Add a message of a person to a conversation",
      description:
        "It is stored after the earlier turns, and begins none: the next turn shows it to the model. The message has the role `user`, and the caller in `metadata.author`.",
      access: "protected",
      action: "conversation.append",
      others: "conversation.others.append",
      yields: true,
      query: UserQuery,
      body: v.pipe(v.object({ text: Text }), v.title("PersonMessage")),
      responses: { 201: v.object({ messageId: v.string() }) },
      errors: {
        ...errors,
        409: "The conversation was deleted",
        499: "The client closed the request",
        503: "Too many turns are queued in the conversation, too much data is in flight, storage cannot be written, or the server is shutting down",
        507: "Storage is full",
      },
      find(request) {
        const { checked, caller } = request.identity;
        if (checked && !caller) throw forbidden();
        return find(request);
      },
      async handle({ found: { key }, body: { text }, query, identity, request, reservation }) {
        const { user, userId = query.userId ?? "anonymous" } = identity.caller ?? {};
        const message = { text, author: toAuthor(userId, user?.["name"]) };
        const messageId = await agents.append(key, message, { signal: request.signal, reservation });
        return new Reply({ messageId }, { status: 201 });
      },
    }),
    defineRoute({
      method: "PATCH",
      path,
      summary: "Change the title of a conversation",
      description: "A title has 1 to 200 characters.",
      access: "protected",
      action: "conversation.write",
      others: "conversation.others.write",
      yields: true,
      query: UserQuery,
      body: v.object({ title: Title }),
      responses: { 200: ConversationShape },
      errors: { 400: "The title is invalid", ...errors },
      find,
      async handle({ found: { key, conversation, isOwn }, body: { title } }) {
        if (!(await conversations.rename(key, { title }))) throw missingConversation(key);
        return toView({ ...conversation, title }, isOwn);
      },
    }),
    defineRoute({
      method: "DELETE",
      path,
      summary: "Delete a conversation",
      description:
        "Stops the running turn, and answers waiting ones with 409. Removes the messages and their files. Executions of workflows keep their step results.",
      access: "protected",
      action: "conversation.delete",
      others: "conversation.others.delete",
      yields: true,
      query: UserQuery,
      responses: { 200: v.object({ deleted: v.literal(true) }) },
      errors,
      find,
      async handle({ found: { key } }) {
        const isRemoved = await conversations.remove(key);
        agents.calls.modelCalls?.remove(key);
        if (!isRemoved) throw missingConversation(key);
        return { deleted: true as const };
      },
    }),
  ];
}
