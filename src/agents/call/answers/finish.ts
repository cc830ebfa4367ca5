import type { FinishReason, LanguageModelUsage, ModelMessage, StepResult, ToolSet } from "ai";
import { toUsage } from "../../answers/usage.ts";
import { toAnswerParts, type SdkPart } from "../../messages/answer-parts.ts";
import { addModels } from "../../messages/from-models.ts";
import type { ExecutionCall, UiParts } from "../../messages/ui-message.ts";
import { continueParts, withObject } from "../../messages/ui-stream.ts";
import type { ObjectShape } from "../../schemas/object-shape.ts";
import { SuspendedCall } from "../../tools/no-result.ts";
import { withRequests } from "../approvals/inner-requests.ts";
import { openApprovals } from "../approvals/pending-calls.ts";
import type { HeldTurn } from "../history/open-turn.ts";
import type { Operation } from "../operation.ts";
import type { CallParts } from "../question.ts";
import { toUsageAttributes } from "../spans.ts";
import { toApproval, type Answer } from "./answer.ts";

/** The fields of an SDK result that are used here. */
export interface SdkResult {
  readonly text: string;
  readonly finishReason: FinishReason;
  readonly totalUsage: LanguageModelUsage;
  readonly responseMessages: readonly ModelMessage[];
  readonly steps: readonly StepResult<ToolSet>[];
}

/** Stores the answer of a call, and returns it. */
export async function finish(
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
  operation.trace.span?.set(toUsageAttributes(usage.inputTokens, usage.outputTokens));
  // The answer is not complete: the turn that continues it makes its text.
  const isStored = turn.type === "stored";
  const isOpen = isStored && openApprovals(responseMessages).length + waiting.size > 0;
  const object = shape && !isOpen ? await shape.read(text) : undefined;
  await operation.hook("onEnd", { text, finishReason, usage, steps });
  operation.signal.throwIfAborted();
  const pending = isStored
    ? await turn.store({
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
      })
    : [];
  const approvals = pending
    .filter(({ type }) => type === "approval")
    .map((one) => toApproval({ ...one, input: JSON.parse(one.input) as unknown }));
  const models = withRequests([...(turn.type === "continued" ? turn.models : []), ...responseMessages], waiting);
  const open = !isStored && operation.mayWait && openApprovals(models).length > 0 ? models : undefined;
  return { text, object, finishReason, usage, steps, approvals, suspensions, open };
}

/** Returns the executions that the tool calls of an answer have started. */
export const toExecutions = ({ records }: Operation, isWaiting: (toolCallId: string) => boolean): ExecutionCall[] =>
  [...(records?.executions ?? [])].map(([toolCallId, executionId]): ExecutionCall => {
    return isWaiting(toolCallId) ? { toolCallId, executionId } : { toolCallId, executionId, ended: true };
  });

/** Removes the results of waiting tool calls from the messages. */
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
