import type { ModelMessage } from "ai";
import { toErrorMessage } from "../../../core/error.ts";
import type { CallOutcome } from "../../../engine/stored/pending-calls.ts";
import type { SdkPart } from "../../messages/answer-parts.ts";
import { continueParts, toStopped } from "../../messages/ui-stream.ts";
import type { HeldStoredTurn } from "../history/open-turn.ts";
import type { CallParts } from "../question.ts";
import { toExecutions } from "./finish.ts";

/** Stores the part of an answer that was made before the turn was stopped, or has failed. */
export async function storePartial(
  { agent: { sdk }, operation }: CallParts,
  turn: HeldStoredTurn,
  stopped: true | undefined,
): Promise<void> {
  const answer = turn.recorded.all;
  const { early, own } = splitResults(answer);
  const parts = toStopped(await continueParts(sdk, [], own));
  if (parts.length === 0 && early.length === 0) return;
  const models = await sdk.convertToModelMessages([{ role: "assistant", parts }], { ignoreIncompleteToolCalls: true });
  await turn.store({
    id: turn.answerId(),
    models: [...toResultMessages(early, turn.calls.decided), ...models],
    at: operation.clock.now(),
    stopped,
    isPartial: true,
    executions: toExecutions(operation, () => false),
    toParts: async (before) => toStopped(await continueParts(sdk, before, answer)),
  });
}

type ResultPart = Extract<SdkPart, { type: "tool-result" | "tool-error" | "tool-output-denied" }>;

/** Splits the parts of an answer: results for calls of the continued message, and the rest. */
function splitResults(answer: readonly SdkPart[]): { early: ResultPart[]; own: SdkPart[] } {
  const made = new Set<string>();
  const early: ResultPart[] = [];
  const own: SdkPart[] = [];
  for (const part of answer) {
    if (part.type === "tool-call" || part.type === "tool-input-start") {
      made.add(part.type === "tool-call" ? part.toolCallId : part.id);
    }
    const isResult = part.type === "tool-result" || part.type === "tool-error" || part.type === "tool-output-denied";
    if (isResult && !made.has(part.toolCallId)) early.push(part);
    // A call of that message gets a result even if it waits again: no turn continues it.
    else if (part.type !== "tool-approval-request" || made.has(part.toolCall.toolCallId)) own.push(part);
  }
  return { early, own };
}

/** Returns the message of the model that has such results. */
function toResultMessages(results: readonly ResultPart[], decided: ReadonlyMap<string, CallOutcome>): ModelMessage[] {
  if (results.length === 0) return [];
  const content = results.map((part) => {
    const { toolCallId, toolName } = part;
    const reason = decided.get(toolCallId)?.reason;
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
