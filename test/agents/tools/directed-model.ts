import { scriptedModel, type ScriptedModel, type ScriptedStep } from "agentserve/models";

export type DirectedCall = readonly [toolName: string, input: unknown, toolCallId?: string];

let ids = 0;
/** Returns a question for a directed model: the tools that it calls at once. */
export const toCalls = (...calls: readonly DirectedCall[]): string =>
  JSON.stringify(calls.map(([toolName, input, toolCallId = `call-${++ids}`]) => ({ toolName, input, toolCallId })));

/** A model that makes the tool calls of its question, and then answers with their results. */
export function directedModel(): ScriptedModel {
  const answer: ScriptedStep = ({ prompt }) => {
    const last = prompt.findLastIndex(({ role }) => role === "user");
    const texts = prompt[last]!.content as { type: string; text: string }[];
    const question = texts.map(({ text }) => text).join("");
    const results = prompt
      .slice(last)
      .flatMap(({ role, content }) => (role === "tool" ? content : []))
      .flatMap((part) => (part.type === "tool-result" ? [part.output] : []))
      .map((output) => ("value" in output ? output.value : output.type));
    if (results.length > 0) return JSON.stringify(results);
    return question.startsWith("[") ? { toolCalls: JSON.parse(question) } : `No tools for ${question}`;
  };
  return scriptedModel(Array.from({ length: 2_000 }, () => answer));
}
