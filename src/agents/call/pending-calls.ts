import type { ModelMessage } from "ai";
import { ServeError } from "../../core/error.ts";
import { mostPending, type CallOutcome, type PendingCall } from "../../engine/pending-calls.ts";
import type { ExecutionCall } from "../messages/ui-message.ts";
import type { Draft } from "./draft.ts";
import { openCalls, partsOf } from "./messages.ts";

/** A call of a message that waits for an approval, or has waited for one and has no result yet. */
export interface OpenApproval {
  /** The id of the approval. */
  readonly id: string;
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
}

/** Returns the approvals of messages whose calls have no result, in the order of the calls. */
export function openApprovals(models: readonly ModelMessage[]): OpenApproval[] {
  const { calls, approvals } = openCalls(models);
  const inputs = new Map(models.flatMap(partsOf).flatMap(toInput));
  return [...approvals].map(([id, toolCallId]) => ({
    id,
    toolCallId,
    toolName: calls.get(toolCallId)!, // it has no result
    input: inputs.get(toolCallId),
  }));
}
function toInput(part: { type: string; toolCallId?: string; input?: unknown }): [string, unknown][] {
  return part.type === "tool-call" ? [[part.toolCallId!, part.input]] : [];
}

/**
 * Returns the calls that an answer waits for. The only place that decides this: whatever is stored as waiting, and whatever a
 * caller is told to decide, is from here.
 */
export function toPendingCalls(draft: Draft, at: number): PendingCall[] {
  const { id: messageId, models } = draft;
  const answered = new Set(models.flatMap(partsOf).map(answerOf));
  const pending = openApprovals(models).filter(({ id }) => !answered.has(id));
  const executions = openExecutions(draft);
  if (pending.length + executions.length > mostPending) {
    const count = pending.length + executions.length;
    const what = executions.length === 0 ? "wait for approval" : "wait";
    const message = `The answer has ${count} tool calls that ${what}: the limit is ${mostPending}`;
    throw new ServeError(500, message, { retry: false });
  }
  return [
    ...pending.map(({ id, toolCallId, toolName, input }): PendingCall => {
      return { type: "approval", id, messageId, toolCallId, toolName, input: JSON.stringify(input ?? null), at };
    }),
    ...executions.map(({ executionId: id, toolCallId, toolName }): PendingCall => {
      return { type: "execution", id, messageId, toolCallId, toolName, input: "", at };
    }),
  ];
}

/** A call of a message that waits for the end of an execution. */
export interface OpenExecution extends ExecutionCall {
  readonly toolName: string;
}
/** Returns the calls of a message that wait for the end of an execution. */
export function openExecutions({ models, metadata }: Pick<Draft, "models" | "metadata">): OpenExecution[] {
  const { calls } = openCalls(models);
  return (metadata.executions ?? []).flatMap(({ toolCallId, executionId }) => {
    const toolName = calls.get(toolCallId);
    return toolName === undefined ? [] : [{ toolCallId, executionId, toolName }];
  });
}
const answerOf = ({ type, approvalId }: { type: string; approvalId?: string }): string | undefined =>
  type === "tool-approval-response" ? approvalId : undefined;

/** Returns the message of the model that has the outcomes. The SDK reads those of one message only: all are in it. */
export function toResponses(
  outcomes: readonly { readonly id: string; readonly outcome: CallOutcome }[],
): ModelMessage[] {
  if (outcomes.length === 0) return [];
  const content = outcomes.map(({ id, outcome: { approved, reason } }) => ({
    type: "tool-approval-response" as const,
    approvalId: id,
    approved,
    ...(reason !== undefined && { reason }),
  }));
  return [{ role: "tool", content }];
}

/** The reason of calls whose conversation has continued without them. */
export const superseded = "superseded";
/** The result of a tool that was approved, in a turn that has failed. */
export const lostResult = "The turn failed, so the result of this tool is not known";

/**
 * Returns the messages that give every open approval a result, so that a model can be shown them. A call that was approved has
 * run, or may have run, if `hasRun`.
 */
export function toClosing(
  open: readonly OpenApproval[],
  outcomeOf: (id: string) => CallOutcome | undefined,
  hasRun: boolean,
): ModelMessage[] {
  const closed = open.map(({ id, toolCallId, toolName }) => {
    const outcome = outcomeOf(id);
    const approved = hasRun && outcome?.approved === true;
    const reason = outcome?.approved === false ? outcome.reason : superseded;
    const output = approved
      ? { type: "error-text" as const, value: lostResult }
      : { type: "execution-denied" as const, ...(reason !== undefined && { reason }) };
    const response = { id, outcome: { approved, at: 0, reason: approved ? undefined : reason } };
    return { response, result: { type: "tool-result" as const, toolCallId, toolName, output } };
  });
  const responses = toResponses(closed.map(({ response }) => response));
  return [...responses, { role: "tool", content: closed.map(({ result }) => result) }];
}
