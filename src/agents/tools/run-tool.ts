import { ServeError } from "../../core/error.ts";
import { askAgent, refuseOther } from "../call/ask-agent.ts";
import type { Operation } from "../call/operation.ts";
import type { ToolCall } from "./outside.ts";
import type { AgentTool, WorkflowTool } from "./target-tools.ts";

/** Starts the workflow of a tool and returns the result, or asks its agent and returns the text. */
export async function runOutside(
  tool: WorkflowTool | AgentTool,
  operation: Operation,
  toolCall: ToolCall,
): Promise<unknown> {
  operation.signal.throwIfAborted(); // an `onToolStart` hook may have failed the call
  if (tool.type === "agentserve-agent-tool") return askAgent(tool, operation, toolCall);
  const { outside, step, records, callContext: call } = operation;
  const { input, toolCallId, abortSignal: signal } = toolCall;
  refuseOther(operation, toolCall.name, toolCallId);
  const { workflowId, anonymous } = tool;
  await outside.admit(call, { kind: "workflow", id: workflowId, anonymous });
  const key = operation.toIdempotencyKey(toolCallId);
  const onBegun = (executionId: string): void => void records?.executions.set(toolCallId, executionId);
  const isDurable = records !== undefined;
  const end = await outside.run({ workflowId, input, call, key, signal, onBegun, step, isDurable });
  if ("output" in end) return end.output;
  if ("error" in end) throw new ServeError(500, end.error);
  const { executionId, suspension } = end;
  if (!records?.maySuspend) throw new ServeError(409, `Execution ${executionId} is suspended: ${suspension.reason}`);
  operation.suspend(toolCallId, end);
  return end;
}
