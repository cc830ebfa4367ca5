import type { FinishReason, LanguageModelUsage, ModelMessage, StepResult, TextStreamPart, ToolSet } from "ai";
import type { Reservation } from "../../core/byte-budget.ts";
import type { CallContext } from "../../core/caller.ts";
import type { ServeError } from "../../core/error.ts";
import { newId } from "../../core/id.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { Conversations, Turn } from "../../engine/contract/conversations.ts";
import type { StepCaller } from "../../engine/runtime.ts";
import type { AgentDefinition } from "../define.ts";
import { noUsage, toUsage } from "../answers/usage.ts";
import { nameConversation } from "../conversations/name-conversation.ts";
import { AnswerParts, toAnswerParts, type SdkPart } from "../messages/answer-parts.ts";
import { splitResults, toResultMessages } from "./early-results.ts";
import { addModels } from "../messages/from-models.ts";
import { readMessages } from "../messages/read-messages.ts";
import type { ExecutionCall, StoredUiMessage, UiParts } from "../messages/ui-message.ts";
import { continueParts, toStopped, withObject } from "../messages/ui-stream.ts";
import type { ObjectShape } from "../schemas/object-shape.ts";
import { SuspendedCall } from "../tools/no-result.ts";
import type { Sdk } from "../sdk.ts";
import { SuspendedCall } from "../tools/suspended-call.ts";
import { withRequests } from "./inner-requests.ts";
import type { ContinuedCall } from "../tools/inner-approval.ts";
import { toMessages, type AgentInput } from "./messages.ts";
import type { AgentCallOptions, Operation } from "./operation.ts";
import { openApprovals, toAsked, type AskedApproval } from "./pending-calls.ts";
import type { PreparedAgent } from "./prepare.ts";
import type { DurableTurn } from "./recorded-calls.ts";
import { toShownPart } from "./shown-part.ts";
import { toSdkSettings } from "./sdk-settings.ts";
import { toUsageAttributes } from "./spans.ts";
import { continuedTurn, freeTurn, storedTurn, type OpenTurn } from "./turn.ts";
import type { TurnInput, WaitingAnswer } from "./turn-parts.ts";

/** The input of a call. */
export interface Question extends Omit<TurnInput, "messages"> {
  readonly input: AgentInput;
  /** The field of the body that has the input, for errors. @default "input" */
  readonly field?: string | undefined;
  /** Creates the shape of an answer that must be an object. Runs within the call, because it may take a while. */
  readonly toShape?: (() => Promise<ObjectShape>) | undefined;
  /** True if `turnName` has not begun: it is refused when too many turns wait. @default true without a name */
  readonly isNew?: boolean | undefined;
  /** The id of the answer. @default that of the message that it continues, or a new one */
  readonly answerId?: string | undefined;
  /** The answer without a conversation that the call continues. */
  readonly continued?: ContinuedCall | undefined;
  /** The schema of `toShape`, as the client sent it. */
  readonly schema?: Record<string, unknown> | undefined;
}
/** The agent, the operation and the store of one call. */
export interface CallParts {
  readonly agent: PreparedAgent;
  readonly operation: Operation;
  readonly conversations: Conversations;
  /** Max bytes of a stored conversation in a prompt. */
  readonly conversationBytes: number;
}
/** The result of a call. */
export interface Answer {
  readonly text: string;
  /** The parsed value of `text`, if the question has a shape. */
  readonly object: unknown;
  readonly finishReason: FinishReason;
  /** The sum over all steps. */
  readonly usage: LanguageModelUsage;
  readonly steps: readonly StepResult<ToolSet>[];
  /** The calls of the stored answer that wait for an approval. */
  readonly approvals: readonly PendingApproval[];
  /** The calls of the stored answer that wait for the end of an execution. */
  readonly suspensions: readonly PendingExecution[];
  /** The messages of an answer that is not stored, if calls of it wait for an approval. */
  readonly open?: readonly ModelMessage[] | undefined;
}
/** A tool call that waits for the end of an execution. */
export interface PendingExecution extends Pick<SuspendedCall, "executionId" | "suspension"> {
  readonly toolCallId: string;
}
/** A tool call that waits for an approval, as a caller is told of it. */
interface PendingApproval {
  readonly approvalId: string;
  readonly toolName: string;
  readonly toolCallId: string;
  readonly input: unknown;
  /** The agents that were asked, if it is a tool of the last of them. */
  readonly via?: string[];
}
/** A part of an answer. The first part has the id of the message, the last one the whole answer. */
export type AnswerPart =
  | Exclude<TextStreamPart<ToolSet>, { type: "start" | "finish" | "error" }>
  | { readonly type: "start"; readonly messageId: string }
  | { readonly type: "finish"; readonly answer: Answer };

export interface AgentCall {
  readonly agent: AgentDefinition;
  readonly question: Question;
  readonly options?: AgentCallOptions | undefined;
  /** The user and the conversation of the call. */
  readonly callContext: CallContext;
  /** Aborted when the caller disconnects. */
  readonly signal: AbortSignal;
  /** The step of a workflow that the call comes from. @default none */
  readonly step?: StepCaller | undefined;
  /** The part of the bytes in flight that the request has. @default none, there is no request */
  readonly reservation?: Reservation | undefined;
  /** True if the call comes from a tool or a hook of another one, which waits for it. @default false */
  readonly isNested?: boolean | undefined;
  /** True if the call can wait for approvals of its tools. @default false */
  readonly mayWait?: boolean | undefined;
  /** The number of agents that wait for the answer, by `agentTool`. @default 0 */
  readonly depth?: number | undefined;
  /** The program of the turns of the agent. With it, a call with a conversation survives its client and its server. */
  readonly program?: Program | undefined;
  /** The turn that a crash repeats, and the calls that it has recorded. @default nothing is recorded */
  readonly turn?: DurableTurn | undefined;
}
/** A call that has begun: its caller may abort it by another way than a signal. */
export type BegunCall = Omit<AgentCall, "signal"> & { readonly signal: AbortSignal | undefined };
/** A part of a stream that has started. An `error` part is always the last one. */
export type StreamPart = AnswerPart | { readonly type: "error"; readonly error: ServeError };

/** Calls the model and returns the whole answer. */
export async function generate(parts: CallParts, question: Question): Promise<Answer> {
  const shape = await question.toShape?.();
  const turn = await openTurn(parts, question);
  try {
    const settings = await toSdkSettings(parts, question.input, turn.prompt, shape);
    return await finish(parts, shape, turn, await parts.agent.sdk.generateText(settings));
  } finally {
    void turn.close();
  }
}

/** Calls the model and yields the parts of the answer as they arrive. The turn is stored before `finish` is yielded. */
export async function* stream(parts: CallParts, question: Question, opened?: HeldTurn): AsyncGenerator<AnswerPart> {
  const shape = await question.toShape?.();
  const turn = opened ?? (await openTurn(parts, question));
  const { recorded } = turn;
  const { operation } = parts;
  operation.decided = turn.decided;
  operation.open = turn.open ?? [];
  let reader: ReadableStreamDefaultReader<SdkPart> | undefined;
  let result: SdkResult | undefined;
  try {
    const settings = await toSdkSettings(parts, opened ? undefined : question.input, turn.prompt, shape);
    const { stream: answer } = toStreamText(parts.agent.sdk)({
      ...settings,
      onEnd: (event) => void (result = event),
      onError: () => {}, // without a callback, the SDK prints the error
    });
    reader = answer.getReader();
    for (let part; (part = (await reader.read()).value);) {
      if (part.type === "error") throw part.error;
      if (part.type === "abort") throw operation.sdkSignal.reason;
      if (part.type === "start") yield { type: "start", messageId: turn.answerId() };
      else if (part.type !== "finish") {
        const shown = toShownPart(operation, part);
        if (shown) recorded?.add(shown);
        if (shown) yield shown;
      }
    }
    if (!result) throw new Error("The model's answer ended without a result");
    yield { type: "finish", answer: await finish(parts, shape, turn, result, recorded?.all) };
  } finally {
    if (!result) operation.cut();
    // Not awaited: a stream that the SDK has copied ends only with the model.
    void reader?.cancel().catch(() => {});
    if (!opened) void turn.close();
  }
}

/**
 * Returns the SDK's function that streams. The one with low memory does not copy the stream, but is experimental: some
 * versions of the SDK do not have it.
 */
function toStreamText(sdk: Partial<Pick<Sdk, LowMemory>> & Omit<Sdk, LowMemory>): Sdk[LowMemory] {
  return sdk.experimental_streamTextLowMemory ?? sdk.streamText;
}
type LowMemory = "experimental_streamTextLowMemory";

/** A turn that has its place in the conversation. */
export interface HeldTurn extends OpenTurn {
  /** The parts of the answer so far, if it will be stored. */
  readonly recorded: AnswerParts | undefined;
  /** Generated on the first call. */
  readonly answerId: () => string;
  close(isUnfinished?: boolean): Promise<void> | void;
  /** Hears what other processes ask of the turn. */
  readonly listen?: Turn["listen"];
}

/** Opens the turn of a call, when those before it have ended. */
export async function openTurn(
  { agent, operation, conversations, conversationBytes: maxBytes }: CallParts,
  question: Question,
): Promise<HeldTurn> {
  const given = operation.records?.found?.input ?? question.input;
  // The server itself continues a message, with decisions and without messages of a client.
  const { decisions, outcomes, ended, results } = question;
  const isBare = given.length === 0 && (decisions ?? outcomes ?? ended ?? results) !== undefined;
  const messages = isBare ? [] : await toMessages(agent.sdk, given, question);
  const input = { ...question, messages };
  const { signal, callContext } = operation;
  const { userId, conversationId } = callContext;
  const { id: agentId, memory } = operation.agent;
  if (question.continued) return toHeld(continuedTurn(messages, question.continued), () => {});
  if (!memory || conversationId === undefined) {
    return toHeld(freeTurn(input), () => {});
  }
  const key = { agentId, userId, conversationId };
  const turn = await conversations.open(key, { name: question.turnName, isNew: question.isNew, signal });
  // A tool that ignores the abort must not keep the conversation locked. A durable turn is closed by its runner.
  const isHeld = question.isNew !== undefined;
  if (!isHeld) signal.addEventListener("abort", () => void turn.close(), { once: true });
  turn.signal?.addEventListener("abort", () => operation.abort(turn.signal?.reason), { once: true });
  try {
    const readLast = async () => (await readMessages(conversations, key, { limit: 1 })).at(-1);
    const onOmitted = (omitted: number): void =>
      operation.context.logger.warn("Older messages were left out: the conversation is over limits.conversationBytes", {
        omitted,
      });
    const admit = (bytes: number): Promise<void> => operation.history.admit(bytes, signal);
    const onNew = (message: StoredUiMessage, title: string): void =>
      void nameConversation(operation, conversations, { key, message, title });
    const at = question.at ?? operation.clock.now();
    const toOrigin = (): string => toOriginText(operation);
    const store = { turn, admit, readLast, at, signal, maxBytes, onOmitted, onNew, toOrigin };
    const held = toHeld(await storedTurn(store, input), (isUnfinished) => turn.close(isUnfinished), question.answerId);
    operation.answer = { key, id: held.answerId };
    return { ...held, listen: turn.listen };
  } catch (error) {
    void turn.close();
    throw error;
  }
}

/** The facts of a call that a turn needs which continues its answer for another user. */
export interface CallOrigin {
  readonly user?: CallContext["user"];
  readonly context: CallContext["context"];
  readonly options: AgentCallOptions;
}
function toOriginText({ callContext: { user, context }, options }: Operation): string {
  return JSON.stringify({ user, context, options } satisfies CallOrigin);
}

function toHeld(turn: OpenTurn, close: HeldTurn["close"], answerId?: string): HeldTurn {
  let id = turn.continues ?? answerId;
  const recorded = turn.store && new AnswerParts();
  return { ...turn, recorded, answerId: () => (id ??= newId()), close };
}

/** The fields of an SDK result that are used here. */
interface SdkResult {
  readonly text: string;
  readonly finishReason: FinishReason;
  readonly totalUsage: LanguageModelUsage;
  readonly responseMessages: readonly ModelMessage[];
  readonly steps: readonly StepResult<ToolSet>[];
}

async function finish(
  call: CallParts,
  shape: ObjectShape | undefined,
  turn: HeldTurn,
  result: SdkResult,
  recorded?: readonly SdkPart[],
): Promise<Answer> {
  const { operation } = call;
  const { text, totalUsage: usage } = result;
  const { isPaused, suspended: waiting } = operation;
  const { finishReason, steps }: Pick<SdkResult, "finishReason" | "steps"> = isPaused
    ? { finishReason: "tool-calls", steps: [] }
    : result;
  const responseMessages = withoutResults(result.responseMessages, waiting);
  const suspensions = [...waiting].flatMap(([toolCallId, one]) => {
    return one instanceof SuspendedCall ? [{ toolCallId, ...one }] : [];
  });
  for (const { warnings } of steps) if (warnings?.length) operation.context.logger.warn("Model warnings", { warnings });
  operation.span?.set(toUsageAttributes(usage.inputTokens, usage.outputTokens));
  // The answer is not complete: the turn that continues it makes its text.
  const isOpen = turn.store !== undefined && openApprovals(responseMessages).length + waiting.size > 0;
  const object = shape && !isOpen ? await shape.read(text) : undefined;
  await operation.hook("onEnd", { text, finishReason, usage, steps });
  operation.signal.throwIfAborted();
  const pending = await turn.store?.({
    id: turn.answerId(),
    models: responseMessages,
    usage: toUsage(usage),
    at: operation.clock.now(),
    stopped: operation.records?.wasStopped || undefined,
    executions: toExecutions(operation, (toolCallId) => waiting.get(toolCallId) instanceof SuspendedCall),
    waiting,
    toParts: async (before) => {
      const parts = await toUiParts(call, before, recorded ?? toAnswerParts(result), responseMessages);
      return shape && !isOpen ? withObject(parts, object) : parts;
    },
  });
  const approvals = (pending ?? [])
    .filter(({ type }) => type === "approval")
    .map((one) => toApproval({ ...one, input: JSON.parse(one.input) as unknown }));
  const models = withRequests([...(turn.continued ?? []), ...responseMessages], waiting);
  const open = !turn.store && operation.mayWait && openApprovals(models).length > 0 ? models : undefined;
  return { text, object, finishReason, usage, steps, approvals, suspensions, open };
}

/** Returns the executions that the tool calls of an answer have started. */
const toExecutions = ({ records }: Operation, isWaiting: (toolCallId: string) => boolean): ExecutionCall[] =>
  [...(records?.executions ?? [])].map(([toolCallId, executionId]): ExecutionCall => {
    return isWaiting(toolCallId) ? { toolCallId, executionId } : { toolCallId, executionId, ended: true };
  });

/** Removes the results of tool calls that wait from the messages of an answer. */
function withoutResults(
  messages: readonly ModelMessage[],
  calls: ReadonlyMap<string, unknown>,
): readonly ModelMessage[] {
  if (calls.size === 0) return messages;
  // Some providers use an id again. The answer ends with the calls that wait.
  const last = messages.findLastIndex(({ role }) => role === "tool");
  return messages.flatMap((message, index): ModelMessage[] => {
    if (message.role !== "tool" || index !== last) return [message];
    const content = message.content.filter((part) => part.type !== "tool-result" || !calls.has(part.toolCallId));
    return content.length > 0 ? [{ ...message, content }] : [];
  });
}

const toApproval = ({ id, toolName, toolCallId, input, via }: Omit<AskedApproval, "at">): PendingApproval => ({
  approvalId: id,
  toolName,
  toolCallId,
  input,
  ...(via && { via: [...via] }),
});

/** The answer to decisions after which a message still waits. */
export const toWaitingAnswer = (
  { rest }: Pick<WaitingAnswer, "rest">,
  suspensions: readonly PendingExecution[] = [],
): Answer => ({
  suspensions,
  text: "",
  object: undefined,
  finishReason: "tool-calls",
  usage: noUsage,
  steps: [],
  approvals: rest.map(toAsked).map(toApproval),
});

/** Returns the parts of the stored message. If the SDK cannot build them, they are made from the model messages. */
async function toUiParts(
  { agent, operation }: CallParts,
  before: UiParts,
  answer: readonly SdkPart[],
  models: readonly ModelMessage[],
): Promise<UiParts> {
  try {
    return await continueParts(agent.sdk, before, answer);
  } catch (error) {
    const message = "An answer is stored without some details, because the AI SDK cannot build its message";
    operation.context.logger.warn(message, { error });
    return addModels(before, models);
  }
}

/** Stores the part of an answer that was made before the turn was stopped, or has failed. */
export async function storePartial(
  { agent: { sdk }, operation }: CallParts,
  turn: HeldTurn,
  stopped: true | undefined,
): Promise<void> {
  const answer = turn.recorded?.all ?? [];
  const { early, own } = splitResults(answer);
  const parts = toStopped(await continueParts(sdk, [], own));
  if (parts.length === 0 && early.length === 0) return;
  const models = await sdk.convertToModelMessages([{ role: "assistant", parts }], { ignoreIncompleteToolCalls: true });
  await turn.store?.({
    id: turn.answerId(),
    models: [...toResultMessages(early, turn.decided), ...models],
    at: operation.clock.now(),
    stopped,
    isPartial: true,
    executions: toExecutions(operation, () => false),
    toParts: async (before) => toStopped(await continueParts(sdk, before, answer)),
  });
}
