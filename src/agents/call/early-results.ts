import type { ModelMessage, ToolCallPart } from "ai";
import { toErrorMessage } from "../../core/error.ts";
import type { CallOutcome } from "../../engine/stored/pending-calls.ts";
import type { SdkPart } from "../messages/answer-parts.ts";

type ResultPart = Extract<SdkPart, { type: "tool-result" | "tool-error" | "tool-output-denied" }>;

/** Splits the parts of an answer: the results of calls of the message that it continues, and the rest. */
export function splitResults(answer: readonly SdkPart[]): { early: ResultPart[]; own: SdkPart[] } {
  const made = new Set<string>();
  const early: ResultPart[] = [];
  const own: SdkPart[] = [];
  for (const part of answer) {
    if (part.type === "tool-call" || part.type === "tool-input-start") {
      made.add(part.type === "tool-call" ? part.toolCallId : part.id);
    }
    const isResult = part.type === "tool-result" || part.type === "tool-error" || part.type === "tool-output-denied";
    if (isResult && !made.has(part.toolCallId)) early.push(part);
    // A call of that message that waits again gets a result as well: the turn has ended.
    else if (part.type !== "tool-approval-request" || made.has(part.toolCall.toolCallId)) own.push(part);
  }
  return { early, own };
}

/**
 * Finds the calls that were denied, in the last message of a prompt. A reader is told of them before the calls run that were
 * approved.
 */
export function findDenials(messages: readonly ModelMessage[]): ResultPart[] {
  const last = messages.at(-1);
  if (last?.role !== "tool") return [];
  const calls = new Map<string, ToolCallPart>();
  const requests = new Map<string, string>();
  for (const { role, content } of messages) {
    for (const part of role === "assistant" && typeof content !== "string" ? content : []) {
      if (part.type === "tool-call") calls.set(part.toolCallId, part);
      if (part.type === "tool-approval-request") requests.set(part.approvalId, part.toolCallId);
    }
  }
  const results = new Map<string, string>();
  for (const part of last.content) if (part.type === "tool-result") results.set(part.toolCallId, part.output.type);
  const decided = new Set<string>();
  const denied = last.content.flatMap((part) => {
    if (part.type !== "tool-approval-response") return [];
    const call = calls.get(requests.get(part.approvalId) ?? "");
    if (!call || decided.has(call.toolCallId)) return [];
    decided.add(call.toolCallId); // only the first decision counts
    const isOpen = (results.get(call.toolCallId) ?? "execution-denied") === "execution-denied";
    return !part.approved && isOpen ? [call] : [];
  });
  // Those that the provider would have run come last, as in the SDK.
  return [...denied.filter((call) => !call.providerExecuted), ...denied.filter((call) => call.providerExecuted)].map(
    ({ toolCallId, toolName }) => ({ type: "tool-output-denied", toolCallId, toolName }) as ResultPart,
  );
}

/** Returns the message of the model that has such results. */
export function toResultMessages(
  results: readonly ResultPart[],
  decided: ReadonlyMap<string, CallOutcome> | undefined,
): ModelMessage[] {
  if (results.length === 0) return [];
  const content = results.map((part) => {
    const { toolCallId, toolName } = part;
    const reason = decided?.get(toolCallId)?.reason;
    return { type: "tool-result" as const, toolCallId, toolName, output: toOutput(part, reason) };
  });
  return [{ role: "tool", content }];
}

function toOutput(part: ResultPart, reason: string | undefined) {
  if (part.type === "tool-output-denied") {
    return { type: "execution-denied" as const, ...(reason !== undefined && { reason }) };
  }
  if (part.type === "tool-error") return { type: "error-text" as const, value: toErrorMessage(part.error) };
  const value: unknown = part.output ?? null;
  // The output of a tool is plain JSON.
  return typeof value === "string"
    ? { type: "text" as const, value }
    : { type: "json" as const, value: value as never };
}
