import type { UIMessageChunk } from "ai";
import * as v from "valibot";
import { admit, type ActionRequest } from "../core/access/authorizer.ts";
import type { Reservation } from "../core/byte-budget.ts";
import { applyIdentity, type Claims, type Identity } from "../core/caller.ts";
import { ServeError } from "../core/error.ts";
import { AnyObject, OptionalId, Prefer } from "../http/input.ts";
import { Reply } from "../http/envelope.ts";
import { defineRoute, events, nothing, type Route } from "../http/route.ts";
import { EventStream, noContent, unfinished } from "../http/sse.ts";
import type { ConversationKey } from "../engine/contract/conversations.ts";
import type { AgentCall, StreamPart } from "./call/call.ts";
import type { Agents } from "./agents.ts";
import { toDecider } from "./approvals/access.ts";
import { approvalRoutes } from "./approvals/routes.ts";
import { toChat } from "./answers/chat.ts";
import { toObjectEvents } from "./answers/object-events.ts";
import { toStreamEvent } from "./answers/stream-events.ts";
import { toTextResult } from "./answers/text-result.ts";
import { toWaiting } from "./answers/waiting.ts";
import { AlreadyDecided } from "./call/decisions.ts";
import { invalid } from "./call/files.ts";
import type { AgentCallOptions } from "./call/operation.ts";
import type { Decider } from "./call/turn-parts.ts";
import { toAskedUser } from "./conversations/access.ts";
import { findAsked, UserQuery, type ConversationRequest } from "./conversations/find-conversation.ts";
import { conversationRoutes } from "./conversations/routes.ts";
import { toSummary, type AgentDetail } from "./describe.ts";
import { findAgent, type AgentsOfSnapshot, type RegisteredAgent } from "./find-agent.ts";
import { isKnownChunk, type ClientSdk } from "./messages/ui-chunks.ts";
import { ContinuedElsewhere } from "./turns/turn-runner.ts";
import { modelCallRoutes } from "./model-calls/routes.ts";
import { DetailShape, ObjectEventShape, StreamEventShape, SummaryShape, TextShape } from "./shapes.ts";

export interface AgentRoutesOptions {
  readonly agents: Agents;
  readonly isDev: boolean;
}

const number = v.optional(v.number());
const Options = v.optional(
  v.pipe(
    v.object({
      userId: OptionalId,
      conversationId: OptionalId,
      context: v.optional(AnyObject),
      temperature: number,
      maxOutputTokens: number,
      topP: number,
      topK: number,
      presencePenalty: number,
      frequencyPenalty: number,
      seed: number,
      stopSequences: v.optional(v.array(v.string())),
      maxSteps: v.optional(
        v.pipe(v.number(), v.integer("expected a whole number"), v.minValue(1, "expected at least 1")),
      ),
      providerOptions: v.optional(v.record(v.string(), AnyObject)),
      onDisconnect: v.optional(v.picklist(["continue", "abort"])),
    }),
    v.title("AgentOptions"),
  ),
);
const messages = v.array(AnyObject, "expected an array of messages");
const input = v.union([v.string(), messages], "expected a string or an array of messages");
const InputBody = v.pipe(v.object({ input, options: Options }), v.title("AgentRequest"));
const ObjectBody = v.pipe(v.object({ input, schema: AnyObject, options: Options }), v.title("ObjectRequest"));
const ChatBody = v.pipe(
  v.object({
    input: v.optional(messages),
    options: Options,
    id: OptionalId,
    messages: v.optional(messages),
    trigger: v.optional(v.string()),
    messageId: v.optional(v.string()),
  }),
  v.title("ChatRequest"),
);
const BegunShape = v.pipe(
  v.object({ conversationId: v.string(), messageId: v.string(), status: v.literal("running") }),
  v.title("BegunTurn"),
);
const ChatChunk = v.pipe(v.objectWithRest({ type: v.string() }, v.unknown()), v.title("ChatChunk"));

const errors = {
  400: "The request is invalid, or the conversation is too long for the model",
  404: "Agent not found",
  409: "The turn was stopped, its conversation was deleted, an approval in the messages was decided before, or the answer continues on another replica",
  429: "The rate limit of the model is reached, or that of the server; Retry-After has the seconds to wait, if they are known",
  499: "The client closed the request",
  502: "The model call failed, or the model rejected the credentials",
  503: "The server is shutting down, too many calls are in flight or queued, too much data is in flight, or storage cannot be written",
  504: "The model call timed out",
  507: "Storage is full, and the call has a conversation",
  default: "A hook of the agent rejected the call",
};
const objectErrors = {
  ...errors,
  409: "The turn was stopped, its conversation was deleted, the answer continues on another replica, or a tool waits for approval; `approvals` has those",
  502: "The model call failed, the model rejected the credentials, or its answer does not match the schema",
};

export function agentRoutes({ agents, isDev }: AgentRoutesOptions): readonly Route<AgentsOfSnapshot>[] {
  return [
    defineRoute({
      method: "GET",
      path: "/agents",
      summary: "List agents",
      description: "Each with its model, its tools and its status.",
      access: "public",
      responses: { 200: v.array(SummaryShape) },
      handle: ({ snapshot }) => [...snapshot.agents.values()].map((agent) => toSummary(toDetail(agent))),
    }),
    defineRoute({
      method: "GET",
      path: "/agents/:id",
      summary: "Get an agent and its tools",
      description:
        "The instructions are included for callers with a token who may call the agent, and without an authentication provider under `agentserve dev`.",
      access: "public",
      responses: { 200: DetailShape },
      errors: { 404: errors[404] },
      async handle({ params, snapshot, identity }) {
        const { instructions, ...detail } = toDetail(findAgent(snapshot, params.id));
        const isShown = identity.checked ? await mayCall(snapshot, identity, params.id) : isDev;
        return isShown ? { ...detail, instructions } : detail;
      },
    }),
    defineRoute({
      method: "POST",
      path: "/agents/:id/text",
      summary: "Generate text",
      description:
        "Waits for the whole answer, including the tools that the model calls. With `Prefer: respond-async` and a conversation, the response is a 202: the answer is stored in the conversation.",
      headers: { Prefer },
      access: "protected",
      action: "agent.call",
      body: InputBody,
      largeBody: true,
      responses: { 200: TextShape, 202: BegunShape },
      errors,
      find: findCallable,
      handle: async ({ found: agent, body, headers, identity, snapshot, request, reservation }) => {
        const call = toCall(agent, body.options, identity, reservation);
        const question = { input: body.input, decider: deciderOf(call, { identity, snapshot }) };
        if (headers.Prefer) return begin({ ...call, question, signal: request.signal });
        return toTextResult(await agents.generate({ ...call, question, signal: request.signal }));
      },
    }),
    defineRoute({
      method: "POST",
      path: "/agents/:id/object",
      summary: "Generate an object that matches a JSON Schema",
      description: "The answer of the model is checked against `schema`. `Prefer: respond-async` is that of `text`.",
      headers: { Prefer },
      access: "protected",
      action: "agent.call",
      body: ObjectBody,
      responses: { 200: v.union([AnyObject, v.array(v.unknown())]), 202: BegunShape },
      errors: objectErrors,
      find: findCallable,
      handle: async ({ found: agent, body, headers, identity, snapshot, request, reservation }) => {
        const call = toCall(agent, body.options, identity, reservation);
        const decider = deciderOf(call, { identity, snapshot });
        const question = {
          input: body.input,
          schema: body.schema,
          toShape: () => agents.calls.toShape(body.schema),
          decider,
        };
        if (headers.Prefer) return begin({ ...call, question, signal: request.signal });
        const answer = await agents.generate({ ...call, question, signal: request.signal });
        const { object } = answer;
        const isWaiting = toWaiting(answer);
        if (isWaiting) throw isWaiting;
        return object as unknown[]; // or an object, depending on the schema
      },
    }),
    defineRoute({
      method: "POST",
      path: "/agents/:id/stream",
      summary: "Generate an answer and stream it part by part",
      description: "The events are parts of the answer: text, tool calls, their results, and the end of each step.",
      access: "protected",
      action: "agent.call",
      body: InputBody,
      largeBody: true,
      responses: { 200: events(StreamEventShape) },
      errors,
      find: findCallable,
      handle({ found: agent, body, identity, snapshot, reservation }) {
        const call = toCall(agent, body.options, identity, reservation);
        const question = { input: body.input, decider: deciderOf(call, { identity, snapshot }) };
        return new EventStream(async (signal) => toStreamEvents(await agents.open({ ...call, question, signal })), [], {
          drains: true,
        });
      },
    }),
    defineRoute({
      method: "POST",
      path: "/agents/:id/stream-object",
      summary: "Generate an object and stream it: partial objects, then the final object",
      description: "The final object is checked against `schema`.",
      access: "protected",
      action: "agent.call",
      body: ObjectBody,
      responses: { 200: events(ObjectEventShape) },
      errors: objectErrors,
      find: findCallable,
      handle({ found: agent, body, identity, snapshot, reservation }) {
        const call = toCall(agent, body.options, identity, reservation);
        const decider = deciderOf(call, { identity, snapshot });
        const question = {
          input: body.input,
          schema: body.schema,
          toShape: () => agents.calls.toShape(body.schema),
          decider,
        };
        return new EventStream(
          async (signal) => toObjectEvents(await agents.open({ ...call, question, signal }), body.schema),
          [],
          { drains: true },
        );
      },
    }),
    defineRoute({
      method: "POST",
      path: "/agents/:id/chat",
      summary: "Chat with an agent: a UI message stream for useChat",
      description: "Takes the body that `useChat` sends. The stream ends with `[DONE]`.",
      access: "protected",
      action: "agent.call",
      body: ChatBody,
      largeBody: true,
      responses: { 200: events(ChatChunk) },
      errors,
      find: findCallable,
      handle({ found: agent, body, identity, snapshot, reservation }) {
        const sent = body.input ?? body.messages;
        if (!sent) throw invalid("input", "expected an array of messages");
        const conversationId = body.options?.conversationId ?? body.id;
        const call = toCall(agent, { ...body.options, conversationId }, identity, reservation);
        const regenerate = body.trigger === "regenerate-message" ? body.messageId : undefined;
        const decider = deciderOf(call, { identity, snapshot });
        const question = { input: sent, field: body.input ? "input" : "messages", regenerate, decider };
        return new EventStream(
          (signal) => openChat({ ...call, question, signal }),
          [["x-vercel-ai-ui-message-stream", "v1"]],
          { drains: true, last: "[DONE]" },
        );
      },
    }),
    defineRoute({
      method: "GET",
      path: "/agents/:id/chat/:conversationId/stream",
      summary: "Read the answer that is being made in a conversation, from its beginning",
      description:
        "For `useChat({ resume: true })`. The response is a 204 if no turn runs. For 30 s after its end an answer is still sent, if `after` is the id of the last message that the client has, and it is not the answer. `sdk` is the major version of the client's `ai`: chunks that 5 or 6 do not know are left out.",
      access: "protected",
      action: "agent.call",
      others: "conversation.others.read",
      yields: true,
      query: v.object({ ...UserQuery.entries, after: OptionalId, sdk: v.optional(v.picklist(["5", "6", "7"]), "7") }),
      responses: { 200: events(ChatChunk), 204: nothing },
      errors,
      find: findKey,
      handle({ found: key, query }) {
        return new EventStream(
          async (signal) => toAttached(await agents.turns.attach(key, { after: query.after, signal }), query.sdk),
          [["x-vercel-ai-ui-message-stream", "v1"]],
          { drains: true, last: "[DONE]" },
        );
      },
    }),
    defineRoute({
      method: "POST",
      path: "/agents/:id/conversations/:conversationId/stop",
      summary: "Stop the turn that runs in a conversation",
      description:
        "The part of the answer that was made is stored. Turns that wait continue. `messageId` is that of the answer or of the user's message: without it, the turn that runs is meant.",
      access: "protected",
      action: "agent.call",
      others: "conversation.others.write",
      yields: true,
      query: UserQuery,
      body: v.object({ messageId: OptionalId }),
      responses: { 200: v.object({ stopped: v.boolean(), messageId: v.nullable(v.string()) }) },
      errors: {
        404: errors[404],
        409: "The turn of that message has ended",
        503: "The turn was stopped, but storage cannot be written, or the server is shutting down",
      },
      find: findKey,
      handle: ({ found: key, body }) => agents.turns.stop(key, body.messageId),
    }),
    ...conversationRoutes(agents),
    ...modelCallRoutes(agents, isDev),
    ...approvalRoutes(agents),
  ];

  /** Returns the conversation of a request. One of another user is found first; one of the caller may be new. */
  async function findKey(request: ConversationRequest): Promise<ConversationKey> {
    const { params, query, identity } = request;
    const { userId, isOther } = toAskedUser(query, identity);
    if (isOther) return (await findAsked(agents.conversations, request)).key;
    const { definition } = await findCallable(request);
    return { agentId: definition.id, userId, conversationId: params.conversationId };
  }

  async function openChat(call: AgentCall): Promise<AsyncGenerator<unknown>> {
    try {
      return toChat(await agents.open(call));
    } catch (error) {
      const { agent, callContext, signal } = call;
      const { userId, conversationId = "" } = callContext;
      let chunks: AsyncIterable<UIMessageChunk> | undefined;
      if (error instanceof ContinuedElsewhere) chunks = await agents.turns.attachLast(error.key, signal);
      if (error instanceof AlreadyDecided && error.isSame)
        chunks = await agents.turns.attachLast({ agentId: agent.id, userId, conversationId }, signal, error.messageId);
      if (!chunks) throw error;
      return toAttached(chunks, "7");
    }
  }

  /** Begins a turn, and answers before it has ended. */
  async function begin(call: AgentCall): Promise<Reply> {
    const { conversationId } = call.callContext;
    if (conversationId === undefined) throw invalid("options.conversationId", "expected an id, for respond-async");
    const { answerId: messageId } = await agents.begin(call);
    return new Reply({ conversationId, messageId, status: "running" }, { status: 202 });
  }

  function toDetail({ definition, detail }: RegisteredAgent): AgentDetail {
    const status = agents.calls.running(detail.id) > 0 ? "running" : "idle";
    return { ...detail, tools: detail.tools ?? agents.calls.prepared.loadedTools(definition), status };
  }
}

/** Decides whether an authenticated caller may call an agent, and so may see its instructions. */
async function mayCall({ authorizer }: AgentsOfSnapshot, { caller }: Identity, agentId: string): Promise<boolean> {
  if (!caller) return false;
  return (await authorizer?.ask({ action: "agent.call", user: caller.user, agentId })) ?? true;
}

/**
 * Returns the parts of a call that are the same for every route: the agent, the options and the context of the caller.
 */
function toCall(
  { definition: agent, program }: RegisteredAgent,
  options: AgentCallOptions & Claims = {},
  identity: Identity,
  reservation: Reservation,
) {
  return { agent, program, options, reservation, callContext: applyIdentity(options, identity) };
}

async function* toStreamEvents(parts: AsyncGenerator<StreamPart>): AsyncGenerator<object> {
  for await (const part of parts) yield toStreamEvent(part);
}

/** Reads the chunks that a client knows. */
async function* toAttached(chunks: AsyncIterable<UIMessageChunk> | undefined, sdk: ClientSdk): AsyncGenerator<unknown> {
  if (!chunks) return yield noContent;
  try {
    for await (const chunk of chunks) if (isKnownChunk(chunk, sdk)) yield chunk;
  } catch (error) {
    // Another process continues the turn, or the one that runs it cannot be reached.
    if (!(error instanceof ServeError) || error.status !== 503) throw error;
    yield unfinished;
  }
}

/** Returns the decider of the approvals in the messages of a call. */
const deciderOf = (
  { agent, callContext }: ReturnType<typeof toCall>,
  request: Pick<ActionRequest, "identity"> & { readonly snapshot: AgentsOfSnapshot },
): Decider => toDecider(request, { agentId: agent.id, ...callContext });

/** Returns an agent that the caller may call. Throws or rejects with 403 if `authorize` refuses it. */
function findCallable(
  request: ActionRequest & { readonly params: { readonly id: string }; readonly snapshot: AgentsOfSnapshot },
): RegisteredAgent | Promise<RegisteredAgent> {
  const { id: agentId } = request.params;
  return admit(request, findAgent(request.snapshot, agentId), { agentId });
}
