import { getToolName, isToolUIPart, type DynamicToolUIPart, type ToolUIPart } from "ai";
import type { ChatMessage } from "../chat/chat-state.ts";

export type ToolPart = ToolUIPart | DynamicToolUIPart;

/** Returns the calls of an answer that wait for the client. */
export function openClientCalls(message: ChatMessage | undefined): { toolCallId: string; tool: string }[] {
  if (message?.role !== "assistant") return [];
  const parts = message.parts.filter((part) => isToolUIPart(part)).filter((part) => isClientCall(message, part));
  return parts.map((part) => ({ toolCallId: part.toolCallId, tool: getToolName(part) }));
}

/** Returns true for a call that the client has to run. The server gives all others a result, or waits for an execution. */
export const isClientCall = (message: ChatMessage, part: ToolPart): boolean =>
  part.state === "input-available" && !part.providerExecuted && findExecution(message, part) === undefined;

/** Returns the execution that a call has started. Some providers use the id of a call again: one without a result waits. */
export const findExecution = ({ metadata }: ChatMessage, { toolCallId, state }: ToolPart): string | undefined =>
  metadata?.executions?.find((one) => one.toolCallId === toolCallId && !(one.ended && state === "input-available"))
    ?.executionId;
