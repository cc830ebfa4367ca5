import type { FinishReason, LanguageModelUsage, ModelMessage, StepResult, TextStreamPart, ToolSet } from "ai";
import type { Caller } from "../core/caller.ts";
import { badRequest, type ServeError } from "../core/error.ts";
import { newId } from "../core/id.ts";
import type { Conversations } from "../engine/conversations.ts";
import { toMessages, type Input } from "./messages.ts";
import type { AgentContext } from "./context.ts";
import type { AgentDefinition, ModelSettings } from "./define.ts";
import type { AgentCallOptions, Operation } from "./operation.ts";
import type { PreparedAgent } from "./prepare.ts";
import type { Shape } from "./object-shape.ts";
import { freeTurn, storedTurn, type OpenTurn, type TurnInput } from "./turn.ts";

/** What is asked. */
export interface Question extends Omit<TurnInput, "messages"> {
  readonly input: Input;
  /** When the answer must be an object: which. Made once the call has begun, because it may take a while. */
  readonly toShape?: (() => Promise<Shape>) | undefined;
  /** A turn that may be run again under this name is stored once. */
  readonly turnName?: string | undefined;
}
/** Who is asked, and on whose behalf. */
export interface CallParts {
  readonly agent: PreparedAgent;
  readonly operation: Operation;
  readonly conversations: Conversations;
}
/** How a call ended. */
export interface Answer {
  readonly text: string;
  /** What the text holds, where the question has a shape. */
  readonly object: unknown;
  readonly finishReason: FinishReason;
  /** Summed over all steps. */
  readonly usage: LanguageModelUsage;
  readonly steps: readonly StepResult<ToolSet>[];
}
/** A part of an answer. The first one says by which id the answer is known, the last one is the whole of it. */
export type Part =
  | Exclude<TextStreamPart<ToolSet>, { type: "start" | "finish" | "error" }>
  | { readonly type: "start"; readonly messageId: string }
  | { readonly type: "finish"; readonly answer: Answer };

/** A request to an agent. */
export interface AgentCall {
  readonly agent: AgentDefinition;
  readonly question: Question;
  readonly options?: AgentCallOptions | undefined;
  readonly caller: Caller | undefined;
  /** Aborted when the caller leaves. */
  readonly signal: AbortSignal;
  /** Whether a step of a workflow asks. */
  readonly isStep?: boolean | undefined;
}
/** A part of a stream that has begun; an error is its last. */
export type StreamPart = Part | { readonly type: "error"; readonly error: ServeError };

/** Asks for the whole answer. */
export async function generate(parts: CallParts, question: Question): Promise<Answer> {
  const shape = await question.toShape?.();
  const turn = await openTurn(parts, question);
  try {
    const settings = await toSettings(parts, shape, turn);
    return await finish(parts, shape, turn, await parts.agent.sdk.generateText(settings));
  } finally {
    turn.close();
  }
}

/** Hands on the parts of an answer as they come. The turn is stored before the last one says that it is finished. */
export async function* stream(parts: CallParts, question: Question): AsyncGenerator<Part> {
  const shape = await question.toShape?.();
  const turn = await openTurn(parts, question);
  try {
    const settings = await toSettings(parts, shape, turn);
    let result: Result | undefined;
    const { stream: answer } = parts.agent.sdk.experimental_streamTextLowMemory({
      ...settings,
      onEnd: (event) => void (result = event),
      onError: () => {}, // otherwise it would be printed
    });
    for await (const part of answer) {
      if (part.type === "error") throw part.error;
      if (part.type === "abort") throw new Error(part.reason);
      if (part.type === "start") yield { type: "start", messageId: turn.answerId };
      else if (part.type !== "finish") yield part;
    }
    if (!result) throw new Error("The model's answer has no end");
    yield { type: "finish", answer: await finish(parts, shape, turn, result) };
  } finally {
    turn.close();
  }
}

interface HeldTurn extends OpenTurn {
  readonly answerId: string;
  close(): void;
}

async function openTurn({ agent, operation, conversations }: CallParts, question: Question): Promise<HeldTurn> {
  const messages = await toMessages(agent.sdk, question.input, question.trusted);
  const input = { ...question, messages };
  const { userId, signal, options } = operation;
  const { conversationId } = options;
  const { id: agentId, memory } = operation.agent;
  if (!memory || conversationId === undefined) {
    const free = freeTurn(input);
    return { ...free, answerId: free.continues ?? newId(), close: () => {} };
  }
  const turn = await conversations.open({ agentId, userId, conversationId }, { name: question.turnName, signal });
  // A tool that does not hear of it must not keep the conversation.
  signal.addEventListener("abort", () => turn.close(), { once: true });
  try {
    const open = await storedTurn(turn, input);
    return { ...open, answerId: open.continues ?? newId(), close: () => turn.close() };
  } catch (error) {
    turn.close();
    throw error;
  }
}

/** Of what the SDK gives back, what we use. */
interface Result {
  readonly text: string;
  readonly finishReason: FinishReason;
  readonly totalUsage: LanguageModelUsage;
  readonly responseMessages: readonly ModelMessage[];
  readonly steps: readonly StepResult<ToolSet>[];
}

async function finish(
  { operation }: CallParts,
  shape: Shape | undefined,
  turn: HeldTurn,
  result: Result,
): Promise<Answer> {
  const { text, finishReason, totalUsage: usage, responseMessages, steps } = result;
  for (const { warnings } of steps)
    if (warnings?.length) operation.context.logger.warn("The model warns", { warnings });
  const object = shape ? await shape.read(text) : undefined;
  await operation.hook("onEnd", { text, finishReason, usage, steps });
  operation.signal.throwIfAborted();
  await turn.store(responseMessages, turn.answerId);
  return { text, object, finishReason, usage, steps };
}

type Settings = Parameters<PreparedAgent["sdk"]["generateText"]>[0];

async function toSettings(
  { agent, operation }: CallParts,
  shape: Shape | undefined,
  turn: OpenTurn,
): Promise<Settings> {
  const { instructions, maxSteps, maxRetries, hooks, settings, tools } = operation.agent;
  const { userId: _, conversationId: __, context: ___, maxSteps: wanted = maxSteps, ...own } = operation.options;
  await operation.hook("onStart", { messages: turn.prompt });
  const { providerOptions: _mine, ...more } = { ...settings, ...own };
  const all: Settings = {
    ...more,
    model: agent.model(operation),
    instructions: typeof instructions === "function" ? await toInstructions(instructions, operation) : instructions,
    messages: turn.prompt,
    stopWhen: agent.sdk.isStepCount(Math.min(wanted, maxSteps)),
    abortSignal: operation.signal,
    experimental_download: refuseToFetch,
  };
  if (maxRetries !== undefined) all.maxRetries = maxRetries;
  // Whatever a provider takes is JSON.
  const providerOptions = mergeOptions(own.providerOptions, settings.providerOptions);
  if (providerOptions) all.providerOptions = providerOptions as never;
  if (Object.keys(tools).length > 0) all.tools = agent.tools(operation);
  if (shape) all.output = toOutput(shape);
  if (hooks.onStepEnd) all.onStepEnd = (step) => operation.hook("onStepEnd", { step });
  if (hooks.onToolStart) {
    all.onToolExecutionStart = ({ toolCall: { toolName, toolCallId, input } }) =>
      operation.hook("onToolStart", { toolName, toolCallId, input });
  }
  if (hooks.onToolEnd) {
    all.onToolExecutionEnd = ({ toolCall: { toolName, toolCallId, input }, toolOutput }) => {
      const { output, error } = toolOutput as { output?: unknown; error?: unknown };
      return operation.hook("onToolEnd", { toolName, toolCallId, input, output, error });
    };
  }
  return all;
}

async function toInstructions(make: (context: AgentContext) => unknown, operation: Operation): Promise<string> {
  const text = await make(operation.context);
  if (typeof text !== "string") throw new TypeError(`instructions: expected text, found ${typeof text}`);
  return text;
}

type ProviderOptions = ModelSettings["providerOptions"];
/** A client may add to what the author has set for a provider, not change it. */
function mergeOptions(client: ProviderOptions = {}, author: ProviderOptions = {}): ProviderOptions {
  const names = [...new Set([...Object.keys(client), ...Object.keys(author)])];
  if (names.length === 0) return undefined;
  return Object.fromEntries(names.map((name) => [name, { ...client[name], ...author[name] }]));
}

/** Only tells the model what is wanted: the answer is read and checked by the shape. */
const toOutput = ({ schema }: Shape): NonNullable<Settings["output"]> => ({
  name: "object",
  responseFormat: Promise.resolve({ type: "json", schema }),
  parseCompleteOutput: async ({ text }) => text,
  // The SDK holds text back until this changes.
  parsePartialOutput: async ({ text }) => ({ partial: text.length }),
  createElementStreamTransform: () => undefined,
});

/** The server fetches nothing that a client names: the provider does, or nobody. */
const refuseToFetch: NonNullable<Settings["experimental_download"]> = async (files) =>
  files.map(({ url, isUrlSupportedByModel }) => {
    if (isUrlSupportedByModel) return null;
    const { protocol } = new URL(url); // the SDK's type says URL, but it may be text
    throw badRequest(`Invalid request: the model's provider does not fetch ${protocol} URLs: send a data: URL`);
  });
