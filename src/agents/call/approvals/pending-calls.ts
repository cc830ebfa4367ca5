import type { ModelMessage } from "ai";
import { ServeError } from "../../../core/error.ts";
import { maxPending, type CallOutcome, type PendingCall } from "../../../engine/stored/pending-calls.ts";
import type { ExecutionCall } from "../../messages/ui-message.ts";
import type { Draft } from "../history/draft.ts";
import type { InnerCall } from "../../tools/inner-approval.ts";
import { openCalls, partsOf } from "../history/messages.ts";

/** A call of a message that waits for an approval, or has waited for one and has no result yet. */
export interface OpenApproval {
  /** The id of the approval. */
  readonly id: string;
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
  /** The state of the asked agent, if one of its tools waits. */
  readonly inner?: InnerCall | undefined;
}

/** The tool and the input that an approval is about. */
export interface AskedApproval extends Omit<OpenApproval, "inner"> {
  /** The ids of the agents whose tools were asked, if it is a tool of another agent. */
  readonly via?: readonly string[] | undefined;
}

/** Returns an approval as the user sees it who decides. It has the tool call id of the message. */
export function toAsked({ id, toolCallId, inner, ...call }: OpenApproval): AskedApproval {
  const { toolName, input } = inner ?? call;
  return { id, toolCallId, toolName, input, ...(inner && { via: inner.via }) };
}

/** Returns the approvals of messages whose calls have no result, in the order of the calls. */
export function openApprovals(models: readonly ModelMessage[]): OpenApproval[] {
  const { calls, approvals } = openCalls(models);
  const parts = models.flatMap(partsOf);
  const inputs = new Map(parts.flatMap(toInput));
  const inner = new Map(parts.map((part) => [part.approvalId, part.inner]));
  return [...approvals].map(([id, toolCallId]) => ({
    id,
    toolCallId,
    toolName: calls.get(toolCallId)!, // it has no result
    input: inputs.get(toolCallId),
    inner: inner.get(id),
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
  if (pending.length + executions.length > maxPending) {
    const count = pending.length + executions.length;
    const what = executions.length === 0 ? "wait for approval" : "wait";
    const message = `The answer has ${count} tool calls that ${what}: the limit is ${maxPending}`;
    throw new ServeError(500, message, { retry: false });
  }
  return [
    ...pending.map(toAsked).map(({ input, ...call }): PendingCall => {
      return { type: "approval", messageId, ...call, input: JSON.stringify(input ?? null), at };
    }),
    ...executions.map(({ executionId: id, toolCallId, toolName }): PendingCall => {
      return { type: "execution", id, messageId, toolCallId, toolName, input: "", at };
    }),
  ];
}

/** A call that waits for its execution. */
export interface OpenExecution extends ExecutionCall {
  readonly toolName: string;
}
/** Returns the calls of a message that wait for their executions. */
export function openExecutions({ models, metadata }: Pick<Draft, "models" | "metadata">): OpenExecution[] {
  const { calls } = openCalls(models);
  return (metadata.executions ?? []).flatMap(({ toolCallId, executionId, ended }) => {
    const toolName = calls.get(toolCallId);
    return ended || toolName === undefined ? [] : [{ toolCallId, executionId, toolName }];
  });
}
const answerOf = ({ type, approvalId }: { type: string; approvalId?: string }): string | undefined =>
  type === "tool-approval-response" ? approvalId : undefined;

/** Returns the model message with the outcomes. The SDK reads one message only: all are in it. */
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
/** The result of an approved tool whose turn failed. */
export const lostResult = "The turn failed, so the result of this tool is not known";

/**
 * Returns the messages that give every open approval a result: a model accepts no call without one. With `hasRun`, an
 * approved call ran, or may have run.
 */
export function toClosing(
  open: readonly OpenApproval[],
  outcomeOf: (id: string) => CallOutcome | undefined,
  hasRun: boolean,
): ModelMessage[] {
  const closed = open.map(({ id, toolCallId, toolName, inner }) => {
    const outcome = outcomeOf(id);
    // An agent that was asked continues in any case.
    const approved = hasRun && outcome !== undefined && (outcome.approved || inner !== undefined);
    const reason = outcome?.approved === false ? outcome.reason : superseded;
    const output = approved
      ? { type: "error-text" as const, value: lostResult }
      : { type: "execution-denied" as const, ...(reason !== undefined && { reason }) };
    const granted = approved && outcome.approved;
    const response = { id, outcome: { approved: granted, at: 0, reason: approved ? undefined : reason } };
    return { response, result: { type: "tool-result" as const, toolCallId, toolName, output } };
  });
  const responses = toResponses(closed.map(({ response }) => response));
  return [...responses, { role: "tool", content: closed.map(({ result }) => result) }];
}
