import { toErrorMessage } from "../../core/error.ts";
import type { Answer } from "../call/answers/answer.ts";
import type { TextResult } from "../shapes.ts";
import { placeholder } from "../tools/no-result.ts";
import { toUsage } from "./usage.ts";

/** Returns the body of `POST /agents/:id/text`: the text, and every tool call with its result. */
export function toTextResult({ text, finishReason, usage, steps, approvals, suspensions }: Answer): TextResult {
  const content = steps.flatMap((step) => step.content);
  const result: TextResult = {
    text,
    finishReason: approvals.length > 0 ? "approval" : suspensions.length > 0 ? "suspended" : finishReason,
    usage: toUsage(usage),
    toolCalls: [],
    toolResults: [],
    steps: steps.length,
    ...(approvals.length > 0 && { approvals }),
  };
  for (const part of content) {
    if (part.type !== "tool-call" && part.type !== "tool-result" && part.type !== "tool-error") continue;
    const { toolCallId, toolName, input: sent } = part;
    const call = { toolCallId, toolName, input: sent as unknown };
    if (part.type === "tool-call") result.toolCalls.push(call);
    if (part.type === "tool-result" && part.output !== placeholder)
      result.toolResults.push({ ...call, output: part.output as unknown });
    if (part.type === "tool-error") result.toolResults.push({ ...call, error: toErrorMessage(part.error) });
  }
  if (suspensions.length > 0)
    result.suspensions = suspensions.map(({ executionId, suspension }) => ({ executionId, suspension }));
  return result;
}
