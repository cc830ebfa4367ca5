import { invalid } from "./call/history/files.ts";
import type { UIMessageChunk } from "ai";
import * as v from "valibot";
import type { ActionRequest } from "../core/access/authorizer.ts";
import type { Reservation } from "../core/byte-budget.ts";
import { applyIdentity, type Claims } from "../core/caller.ts";
import { ServeError } from "../core/error.ts";
import { AnyObject, OptionalId, Prefer } from "../http/input.ts";
import { Reply } from "../http/envelope.ts";
import { defineRoute, events, type Route } from "../http/route.ts";
import { EventStream, noContent, unfinished } from "../http/sse.ts";
import type { Agents } from "./agents.ts";
import { toChat } from "./answers/chat.ts";
import { toObjectEvents } from "./answers/object-events.ts";
import { toStreamEvent } from "./answers/stream-events.ts";
import { toTextResult } from "./answers/text-result.ts";
import { toWaiting } from "./answers/waiting.ts";
import { toDecider } from "./approvals/access.ts";
import type { AgentCall, Question } from "./call/question.ts";
import type { StreamPart } from "./call/answers/answer.ts";
import { AlreadyDecided } from "./call/approvals/decisions.ts";
import type { AgentCallOptions } from "./call/operation.ts";
import { findCallable, type AgentsOfSnapshot, type RegisteredAgent } from "./find-agent.ts";
import { isKnownChunk, type ClientSdk } from "./messages/ui-chunks.ts";
import { BegunShape, ObjectEventShape, StreamEventShape, TextShape } from "./shapes.ts";
import { ContinuedElsewhere } from "./turns/turn-runner.ts";

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
const Messages = v.array(AnyObject, "expected an array of messages");
const Input = v.union([v.string(), Messages], "expected a string or an array of messages");
const InputBody = v.pipe(v.object({ input: Input, options: Options }), v.title("AgentRequest"));
const ObjectBody = v.pipe(v.object({ input: Input, schema: AnyObject, options: Options }), v.title("ObjectRequest"));
const ChatBody = v.pipe(
  v.object({
    input: v.optional(Messages),
    options: Options,
    id: OptionalId,
    messages: v.optional(Messages),
    trigger: v.optional(v.string()),
    messageId: v.optional(v.string()),
  }),
  v.title("ChatRequest"),
);
export const ChatChunk: v.GenericSchema<{ type: string }> = v.pipe(
  v.objectWithRest({ type: v.string() }, v.unknown()),
  v.title("ChatChunk"),
);

export const callErrors = {
  400: "The request is invalid, or the conversation is too long for the model",
  404: "Agent not found",
  409: "The turn was stopped, its conversation was deleted, an approval in the messages was decided before, or the answer continues on another replica",
  429: "The rate limit of the model is reached, or that of the server; Retry-After has the seconds to wait, if known",
  499: "The client closed the request",
  502: "The model call failed, or the model rejected the credentials",
  503: "The server is shutting down, too many calls are in flight or queued, too much data is in flight, or storage cannot be written",
  504: "The model call timed out",
  507: "Storage is full, and the call has a conversation",
  default: "A hook of the agent rejected the call",
};
const objectErrors = {
  ...callErrors,
  409: "The turn was stopped, its conversation was deleted, the answer continues on another replica, or tool calls wait for approval: they are in `approvals`",
  502: "The model call failed, the model rejected the credentials, or its answer does not match the schema",
};

export function callRoutes(agents: Agents): readonly Route<AgentsOfSnapshot>[] {
  return [
    defineRoute({
      method: "POST",
      path: "/agents/:id/text",
      summary: "Generate text",
      description:
        "Waits for the whole answer, tool calls included. With `Prefer: respond-async` and a conversation, the response is a 202: the answer is stored in the conversation.",
      headers: { Prefer },
      access: "protected",
      action: "agent.call",
      body: InputBody,
      largeBody: true,
      responses: { 200: TextShape, 202: BegunShape },
      errors: callErrors,
      find: findCallable,
      async handle(given) {
        const call = { ...toCall(given, { input: given.body.input }), signal: given.request.signal };
        return given.headers.Prefer ? beginTurn(call) : toTextResult(await agents.generate(call));
      },
    }),
    defineRoute({
      method: "POST",
      path: "/agents/:id/object",
      summary: "Generate an object that matches a JSON Schema",
      description: "The answer of the model is checked against `schema`. `Prefer: respond-async` works as for `text`.",
      headers: { Prefer },
      access: "protected",
      action: "agent.call",
      body: ObjectBody,
      responses: { 200: v.union([AnyObject, v.array(v.unknown())]), 202: BegunShape },
      errors: objectErrors,
      find: findCallable,
      async handle(given) {
        const call = { ...toObjectCall(given), signal: given.request.signal };
        if (given.headers.Prefer) return beginTurn(call);
        const answer = await agents.generate(call);
        const waiting = toWaiting(answer);
        if (waiting) throw waiting;
        return answer.object as unknown[]; // or an object, depending on the schema
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
      errors: callErrors,
      find: findCallable,
      handle(given) {
        const call = toCall(given, { input: given.body.input });
        return new EventStream(async (signal) => toStreamEvents(await agents.open({ ...call, signal })), [], {
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
      handle(given) {
        const call = toObjectCall(given);
        const { schema } = given.body;
        const open = async (signal: AbortSignal) => toObjectEvents(await agents.open({ ...call, signal }), schema);
        return new EventStream(open, [], { drains: true });
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
      errors: callErrors,
      find: findCallable,
      handle({ body, ...given }) {
        const input = body.input ?? body.messages;
        if (!input) throw invalid("input", "expected an array of messages");
        const options = { ...body.options, conversationId: body.options?.conversationId ?? body.id };
        const regenerate = body.trigger === "regenerate-message" ? body.messageId : undefined;
        const question = { input, field: body.input ? "input" : "messages", regenerate };
        const call = toCall({ ...given, body: { options } }, question);
        return toChatStream((signal) => openChat({ ...call, signal }));
      },
    }),
  ];

  function toObjectCall(given: CallRequest & { readonly body: v.InferOutput<typeof ObjectBody> }) {
    const { input, schema } = given.body;
    return toCall(given, { input, schema, toShape: () => agents.calls.toShape(schema) });
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

  /** Begins a turn, and responds before its end. */
  async function beginTurn(call: AgentCall): Promise<Reply> {
    const { conversationId } = call.callContext;
    if (conversationId === undefined) throw invalid("options.conversationId", "expected an id, for respond-async");
    const { answerId: messageId } = await agents.beginTurn(call);
    return new Reply({ conversationId, messageId, status: "running" }, { status: 202 });
  }
}

interface CallRequest extends Pick<ActionRequest, "identity"> {
  readonly found: RegisteredAgent;
  readonly body: { readonly options?: (AgentCallOptions & Claims) | undefined };
  readonly snapshot: AgentsOfSnapshot;
  readonly reservation: Reservation;
}
/** Returns the call of a request, without its signal. */
function toCall(request: CallRequest, asked: Question): Omit<AgentCall, "signal"> {
  const { found, body, identity, snapshot, reservation } = request;
  const { definition: agent, program } = found;
  const { options = {} } = body;
  const callContext = applyIdentity(options, identity);
  const question = { ...asked, decider: toDecider({ identity, snapshot }, { agentId: agent.id, ...callContext }) };
  return { agent, program, options, reservation, callContext, question };
}

export const toChatStream = (open: (signal: AbortSignal) => Promise<AsyncGenerator<unknown>>): EventStream =>
  new EventStream(open, [["x-vercel-ai-ui-message-stream", "v1"]], { drains: true, last: "[DONE]" });

/** Yields the chunks that a client knows. */
export async function* toAttached(
  chunks: AsyncIterable<UIMessageChunk> | undefined,
  sdk: ClientSdk,
): AsyncGenerator<unknown> {
  if (!chunks) return yield noContent;
  try {
    for await (const chunk of chunks) if (isKnownChunk(chunk, sdk)) yield chunk;
  } catch (error) {
    // Another process continues the turn, or its process cannot be reached.
    if (!(error instanceof ServeError) || error.status !== 503) throw error;
    yield unfinished;
  }
}

async function* toStreamEvents(parts: AsyncGenerator<StreamPart>): AsyncGenerator<object> {
  for await (const part of parts) yield toStreamEvent(part);
}
