import { notFound, ServeError } from "../../core/error.ts";
import { mostNested } from "../tools/agent-tool.ts";
import type { ToolOutside, ToolTargets } from "../tools/outside.ts";
import type { AgentCall, Answer, StreamPart } from "./call.ts";

/** Creates the function with which a tool asks another agent: as the user of the call, and without a conversation. */
export function createToolAsk(
  { findAgent }: ToolTargets,
  stream: (call: AgentCall) => AsyncGenerator<StreamPart>,
): ToolOutside["ask"] {
  return async ({ agentId, prompt, call, signal, step, turn, depth }) => {
    if (depth > mostNested) throw new ServeError(500, `More than ${mostNested} agents wait for each other`);
    const agent = findAgent(agentId)?.definition;
    if (!agent) throw notFound(`Agent ${agentId} not found`);
    const { userId, user, context } = call;
    const parts = stream({
      agent,
      question: { input: prompt, trusted: true },
      callContext: { userId, user, context },
      signal,
      step,
      turn,
      isNested: true,
      depth,
    });
    const { text } = await readAnswer(parts);
    return text;
  };
}

async function readAnswer(parts: AsyncGenerator<StreamPart>): Promise<Answer> {
  for await (const part of parts) {
    if (part.type === "error") throw part.error;
    if (part.type === "finish") return part.answer;
  }
  throw new Error("The agent returned no answer");
}
