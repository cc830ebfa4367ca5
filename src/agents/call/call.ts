import { type SdkPart } from "../messages/answer-parts.ts";
import type { Sdk } from "../sdk.ts";
import { InnerApproval } from "../tools/inner-approval.ts";
import type { Answer, AnswerPart } from "./answers/answer.ts";
import { finish, type SdkResult } from "./answers/finish.ts";
import { openTurn, type HeldTurn } from "./history/open-turn.ts";
import type { Operation } from "./operation.ts";
import type { CallParts, Question } from "./question.ts";
import { toSdkSettings } from "./sdk-settings.ts";

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
  const recorded = turn.type === "stored" ? turn.recorded : undefined;
  const { operation } = parts;
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

/**
 * Returns a part of an answer as readers are shown it. A waiting tool call has no result: if the asked agent waits for an
 * approval, the part becomes the approval request. Undefined for a hidden part.
 */
function toShownPart<Part extends SdkPart>(
  operation: Operation,
  part: Part,
): Part | Extract<SdkPart, { type: "tool-approval-request" }> | undefined {
  // No model was asked, so there is no step.
  if (operation.isPaused && (part.type === "start-step" || part.type === "finish-step")) return undefined;
  const waiting = part.type === "tool-result" ? operation.suspended.get(part.toolCallId) : undefined;
  if (!waiting || part.type !== "tool-result") return part;
  if (!(waiting instanceof InnerApproval)) return undefined;
  const { toolCallId, toolName, input } = part;
  const toolCall = { type: "tool-call" as const, toolCallId, toolName, input };
  // The cast is needed: the types of the SDK distinguish calls by their tools.
  return { type: "tool-approval-request", approvalId: waiting.id, toolCall } as never;
}
