import { notFound, ServeError } from "../../core/error.ts";
import { maxNested } from "../tools/target-tools.ts";
import type { ToolOutside, ToolTargets } from "../tools/outside.ts";
import type { AgentDefinition } from "../define.ts";
import type { ContinuedCall } from "../tools/inner-approval.ts";
import type { AgentCall } from "./question.ts";
import type { Answer, StreamPart } from "./answers/answer.ts";
import { openApprovals } from "./approvals/pending-calls.ts";

/** Creates the function with which a tool asks another agent: as the user of the call, and without a conversation. */
export function createToolAsk(
  { findAgent }: ToolTargets,
  stream: (call: AgentCall) => AsyncGenerator<StreamPart>,
): ToolOutside["ask"] {
  return async ({ agentId, prompt, call, signal, step, turn, depth, mayWait, continued }) => {
    if (depth > maxNested) throw new ServeError(500, `More than ${maxNested} agents wait for each other`);
    const agent = findAgent(agentId)?.definition;
    if (!agent) throw notFound(`Agent ${agentId} not found`);
    if (continued) refuseGone(agent, continued);
    const { userId, user, context } = call;
    const parts = stream({
      agent,
      question: { input: prompt, trusted: true, continued },
      callContext: { userId, user, context },
      signal,
      step,
      turn,
      isNested: true,
      depth,
      mayWait,
    });
    const { text, open } = await readAnswer(parts);
    return open ?? text;
  };
}

/** Rejects if a tool that was approved no longer exists. */
function refuseGone({ tools }: AgentDefinition, { models, outcomes }: ContinuedCall): void {
  const approved = new Set(outcomes.flatMap(({ id, outcome }) => (outcome.approved ? [id] : [])));
  const gone = openApprovals(models).find(({ id, toolName }) => approved.has(id) && !Object.hasOwn(tools, toolName));
  if (gone) throw new ServeError(500, `Tool ${gone.toolName} no longer exists`);
}

async function readAnswer(parts: AsyncGenerator<StreamPart>): Promise<Answer> {
  for await (const part of parts) {
    if (part.type === "error") throw part.error;
    if (part.type === "finish") return part.answer;
  }
  throw new Error("The agent returned no answer");
}
