import type { ModelMessage } from "ai";
import { ServeError } from "../../core/error.ts";
import type { DecidedCall } from "../../engine/stored/pending-calls.ts";
import type { AgentTool } from "../tools/target-tools.ts";
import { InnerApproval, type InnerCall } from "../tools/inner-approval.ts";
import type { ToolCall } from "../tools/outside.ts";
import type { Operation } from "./operation.ts";
import { openApprovals, toAsked } from "./approvals/pending-calls.ts";
import { toRecord } from "./record-text.ts";

/**
 * Asks another agent, and returns its text. If tools of that agent wait for approvals, the call waits for the first of them. It
 * runs again when that is decided: then it waits for the next one, or the agent continues with all of the outcomes.
 */
export async function askAgent(
  { agentId, anonymous }: AgentTool,
  operation: Operation,
  { name, input, toolCallId, abortSignal: signal }: ToolCall,
): Promise<string | InnerApproval> {
  const { outside, step, records, callContext: call, depth, mayWait } = operation;
  const wait = (models: readonly ModelMessage[], outcomes: readonly DecidedCall[]): InnerApproval | undefined => {
    const next = openApprovals(models).find(({ id }) => !outcomes.some((decided) => decided.id === id));
    if (!next) return undefined;
    const { toolName, input: asked, via = [] } = toAsked(next);
    const inner: InnerCall = { via: [agentId, ...via], toolName, input: asked, models, outcomes };
    const bytes = Buffer.byteLength(toRecord(inner));
    const { stepValueBytes } = operation.limits;
    if (bytes > stepValueBytes) {
      const message = `The agent of tool ${name} waits for an approval with ${bytes} bytes of messages`;
      throw new ServeError(500, `${message}: the limit is ${stepValueBytes}`);
    }
    const waiting = new InnerApproval(next.id, inner);
    operation.suspend(toolCallId, waiting);
    return waiting;
  };

  refuseOther(operation, name, toolCallId, agentId);
  await outside.admit(call, { kind: "agent", id: agentId, anonymous });
  const { inner, id = "" } = operation.openCall(toolCallId) ?? {};
  const outcome = operation.outcomeOf(toolCallId);
  const outcomes = inner && outcome ? [...inner.outcomes, { id, outcome }] : [];
  const waiting = inner && wait(inner.models, outcomes);
  if (waiting) return waiting;
  const { prompt } = input as { prompt: string }; // checked by the schema
  const turn = records?.openInner(toolCallId);
  const continued = inner && { models: inner.models, outcomes };
  const question = { agentId, prompt, call, signal, step, turn, depth: depth + 1, mayWait, continued };
  const answer = await outside.ask(question);
  if (typeof answer === "string") return answer;
  return wait(answer, [])!; // it has an open call
}

/** Throws if the tool of a continued call asked another agent before, and now asks a different one or none. */
export function refuseOther(operation: Operation, name: string, toolCallId: string, agentId?: string): void {
  const [before] = operation.openCall(toolCallId)?.inner?.via ?? [];
  if (before !== undefined && before !== agentId)
    throw new ServeError(500, `Tool ${name} no longer asks agent ${before}`);
}
