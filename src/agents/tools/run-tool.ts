import { ServeError } from "../../core/error.ts";
import type { Operation } from "../call/operation.ts";
import type { AgentTool } from "./agent-tool.ts";
import type { WorkflowTool } from "./workflow-tool.ts";

/** A call of a tool, as the SDK makes it. The input is checked. */
interface ToolCall {
  readonly input: unknown;
  readonly toolCallId: string;
  readonly abortSignal: AbortSignal;
}

/** Runs a tool: starts its workflow and returns the result, or asks its agent and returns the text. */
export async function runOutside(
  tool: WorkflowTool | AgentTool,
  operation: Operation,
  { input, toolCallId, abortSignal: signal }: ToolCall,
): Promise<unknown> {
  operation.signal.throwIfAborted(); // an `onToolStart` hook may have failed the call
  const { outside, step, records, callContext: call, depth } = operation;
  const { anonymous } = tool;
  if (tool.type === "agentserve-agent-tool") {
    const { agentId } = tool;
    await outside.admit(call, { kind: "agent", id: agentId, anonymous });
    const { prompt } = input as { prompt: string }; // checked by the schema
    const turn = records?.openInner(toolCallId);
    return outside.ask({ agentId, prompt, call, signal, step, turn, depth: depth + 1 });
  }
  const { workflowId } = tool;
  await outside.admit(call, { kind: "workflow", id: workflowId, anonymous });
  const key = operation.toIdempotencyKey(toolCallId);
  const end = await outside.run({ workflowId, input, call, key, signal, step, isDurable: records !== undefined });
  if ("output" in end) return end.output;
  if ("error" in end) throw new ServeError(500, end.error);
  const { executionId, suspension } = end;
  if (!operation.maySuspend) throw new ServeError(409, `Execution ${executionId} is suspended: ${suspension.reason}`);
  operation.suspended.set(toolCallId, end);
  return end;
}
