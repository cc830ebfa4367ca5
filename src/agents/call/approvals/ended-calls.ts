import type { ModelMessage } from "ai";
import { ServeError } from "../../../core/error.ts";
import type { DecidedCall } from "../../../engine/stored/pending-calls.ts";
import type { ExecutionEnd } from "../../tools/outside.ts";
import { invalid } from "../history/files.ts";
import type { ClientMessage } from "../history/messages.ts";
import { superseded, type OpenExecution } from "./pending-calls.ts";
import type { CallResume, TurnInput, TurnStore } from "../history/turn-parts.ts";

/** The calls of a message that have waited for an execution, with their results. */
export interface EndedCalls {
  readonly models: readonly ModelMessage[];
  readonly decided: readonly DecidedCall[];
  /** The calls that still wait. */
  readonly rest: readonly OpenExecution[];
}

/**
 * Gives a result to the calls whose executions are over. Each gets one once: a second end is a conflict. `isWaiting`: the
 * message waits for executions, or waited for them, and is not continued.
 */
export async function toEnded(
  { turn, at }: TurnStore,
  open: readonly OpenExecution[],
  { ended = [], results }: TurnInput,
  isWaiting: boolean,
): Promise<EndedCalls> {
  // It runs again: the results were stored at its beginning. Its answer was not, or the message would be continued.
  if (results && !isWaiting) throw hasEnded();
  if (results) return { models: [], decided: [], rest: [] };
  if (ended.length === 0) return { models: [], decided: [], rest: open };
  const known = await turn.calls(ended.map(({ id }) => id));
  const isOpen = (id: string): boolean =>
    open.some((call) => call.executionId === id) && known.some((call) => call.id === id && !call.outcome);
  if (!ended.every(({ id }) => isOpen(id))) throw hasEnded();
  const ends = new Map(ended.map(({ id, end }) => [id, end]));
  return {
    models: toResults(open, (id) => ends.get(id)),
    decided: ended.map(({ id }) => ({ id, outcome: { approved: true, at } })),
    rest: open.filter(({ executionId }) => !ends.has(executionId)),
  };
}
const hasEnded = (): ServeError => new ServeError(409, "The turn has ended", { retry: false });

/** Closes the calls that wait for an execution, because the user continues without them. The executions continue. */
export const toSuperseded = (open: readonly OpenExecution[]): ModelMessage[] =>
  toResults(open, () => ({ error: superseded }));

/** Returns the model message with the results. */
function toResults(
  open: readonly OpenExecution[],
  endOf: (executionId: string) => ExecutionEnd | undefined,
): ModelMessage[] {
  const content = open.flatMap(({ toolCallId, toolName, executionId }) => {
    const end = endOf(executionId);
    return end ? [{ type: "tool-result" as const, toolCallId, toolName, output: toOutput(end) }] : [];
  });
  return content.length > 0 ? [{ role: "tool", content }] : [];
}

function toOutput(end: ExecutionEnd) {
  if ("error" in end) return { type: "error-text" as const, value: end.error };
  const { output } = end;
  if (typeof output === "string") return { type: "text" as const, value: output };
  return { type: "json" as const, value: output as never }; // the result of a workflow is JSON
}

/** Returns the data with which a client resumes executions: its results of the waiting calls. */
export function toResumes(open: readonly OpenExecution[], { models }: ClientMessage): CallResume[] {
  return models.flatMap((message) => {
    if (message.role !== "tool") return [];
    return message.content.flatMap((part): CallResume[] => {
      if (part.type !== "tool-result") return [];
      const { toolCallId, toolName, output } = part;
      const call = open.find((one) => one.toolCallId === toolCallId && one.toolName === toolName);
      if (!call) return [];
      if (output.type !== "json" && output.type !== "text") {
        throw invalid("input", "an execution is resumed with a result of the tool that waits for it");
      }
      return [{ executionId: call.executionId, data: output.value }];
    });
  });
}
