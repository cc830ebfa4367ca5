import type { SdkPart } from "../messages/answer-parts.ts";
import { InnerApproval } from "../tools/inner-approval.ts";
import type { Operation } from "./operation.ts";

/**
 * Returns a part of an answer as readers are shown it. A tool call that waits has no result: if the agent that it has asked waits
 * for an approval, the part becomes the request for it. Undefined for a part that is not shown.
 */
export function toShownPart<Part extends SdkPart>(
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
  // The cast is needed because the types of the SDK distinguish calls by the tools that they are of.
  return { type: "tool-approval-request", approvalId: waiting.id, toolCall } as never;
}
