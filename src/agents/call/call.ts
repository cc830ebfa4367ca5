import type { FinishReason, LanguageModelUsage, ModelMessage, StepResult, TextStreamPart, ToolSet } from "ai";
import type { CallContext } from "../../core/caller.ts";
import type { ServeError } from "../../core/error.ts";
import { newId } from "../../core/id.ts";
import type { Conversations } from "../../engine/conversations.ts";
import type { AgentDefinition } from "../define.ts";
import type { ObjectShape } from "../schemas/object-shape.ts";
import { toMessages, type AgentInput } from "./messages.ts";
import type { AgentCallOptions, Operation } from "./operation.ts";
import type { PreparedAgent } from "./prepare.ts";
import { toSdkSettings } from "./sdk-settings.ts";
import { toUsageAttributes } from "./spans.ts";
import { freeTurn, storedTurn, type OpenTurn, type TurnInput } from "./turn.ts";

/** What is asked. */
export interface Question extends Omit<TurnInput, "messages"> {
  readonly input: AgentInput;
  /** When the answer must be an object: which. Made once the call has begun, because it may take a while. */
  readonly toShape?: (() => Promise<ObjectShape>) | undefined;
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
export type AnswerPart =
  | Exclude<TextStreamPart<ToolSet>, { type: "start" | "finish" | "error" }>
  | { readonly type: "start"; readonly messageId: string }
  | { readonly type: "finish"; readonly answer: Answer };

/** A request to an agent. */
export interface AgentCall {
  readonly agent: AgentDefinition;
  readonly question: Question;
  readonly options?: AgentCallOptions | undefined;
  /** On whose behalf, and in which conversation. */
  readonly callContext: CallContext;
  /** Aborted when the caller leaves. */
  readonly signal: AbortSignal;
  /** Whether a step of a workflow asks. */
  readonly isStep?: boolean | undefined;
}
/** A part of a stream that has begun; an error is its last. */
export type StreamPart = AnswerPart | { readonly type: "error"; readonly error: ServeError };

/** Asks for the whole answer. */
export async function generate(parts: CallParts, question: Question): Promise<Answer> {
  const shape = await question.toShape?.();
  const turn = await openTurn(parts, question);
  try {
    const settings = await toSdkSettings(parts.agent, parts.operation, turn.prompt, shape);
    return await finish(parts, shape, turn, await parts.agent.sdk.generateText(settings));
  } finally {
    turn.close();
  }
}

/** Hands on the parts of an answer as they come. The turn is stored before the last one says that it is finished. */
export async function* stream(parts: CallParts, question: Question): AsyncGenerator<AnswerPart> {
  const shape = await question.toShape?.();
  const turn = await openTurn(parts, question);
  try {
    const settings = await toSdkSettings(parts.agent, parts.operation, turn.prompt, shape);
    let result: SdkResult | undefined;
    const { stream: answer } = parts.agent.sdk.experimental_streamTextLowMemory({
      ...settings,
      onEnd: (event) => void (result = event),
      onError: () => {}, // otherwise it would be printed
    });
    for await (const part of answer) {
      if (part.type === "error") throw part.error;
      if (part.type === "abort") throw new Error(part.reason);
      if (part.type === "start") yield { type: "start", messageId: turn.answerId() };
      else if (part.type !== "finish") yield part;
    }
    if (!result) throw new Error("The model's answer has no end");
    yield { type: "finish", answer: await finish(parts, shape, turn, result) };
  } finally {
    turn.close();
  }
}

interface HeldTurn extends OpenTurn {
  /** Made when somebody asks for it. */
  readonly answerId: () => string;
  close(): void;
}

async function openTurn({ agent, operation, conversations }: CallParts, question: Question): Promise<HeldTurn> {
  const messages = await toMessages(agent.sdk, question.input, question.trusted);
  const input = { ...question, messages };
  const { signal, callContext } = operation;
  const { userId, conversationId } = callContext;
  const { id: agentId, memory } = operation.agent;
  if (!memory || conversationId === undefined) {
    return toHeld(freeTurn(input), () => {});
  }
  const turn = await conversations.open({ agentId, userId, conversationId }, { name: question.turnName, signal });
  // A tool that does not hear of it must not keep the conversation.
  signal.addEventListener("abort", () => turn.close(), { once: true });
  try {
    return toHeld(await storedTurn(turn, input), () => turn.close());
  } catch (error) {
    turn.close();
    throw error;
  }
}

function toHeld(turn: OpenTurn, close: () => void): HeldTurn {
  let id = turn.continues;
  return { ...turn, answerId: () => (id ??= newId()), close };
}

/** Of what the SDK gives back, what we use. */
interface SdkResult {
  readonly text: string;
  readonly finishReason: FinishReason;
  readonly totalUsage: LanguageModelUsage;
  readonly responseMessages: readonly ModelMessage[];
  readonly steps: readonly StepResult<ToolSet>[];
}

async function finish(
  { operation }: CallParts,
  shape: ObjectShape | undefined,
  turn: HeldTurn,
  result: SdkResult,
): Promise<Answer> {
  const { text, finishReason, totalUsage: usage, responseMessages, steps } = result;
  for (const { warnings } of steps)
    if (warnings?.length) operation.context.logger.warn("The model warns", { warnings });
  operation.span?.set(toUsageAttributes(usage.inputTokens, usage.outputTokens));
  const object = shape ? await shape.read(text) : undefined;
  await operation.hook("onEnd", { text, finishReason, usage, steps });
  operation.signal.throwIfAborted();
  await turn.store(responseMessages, turn.answerId);
  return { text, object, finishReason, usage, steps };
}
