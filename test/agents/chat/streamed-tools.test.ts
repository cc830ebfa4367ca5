// Seen to fail: a tool whose callbacks are not called; a failed model call whose words are lost, or whose tool runs.
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { tool } from "ai";
import { defineAgent } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { expect, it } from "vitest";
import { z } from "zod";
import { describeServer } from "../../harness/server.ts";

const seen: string[] = [];
const add = tool({
  description: "Adds one",
  inputSchema: z.object({ n: z.number() }),
  onInputStart: ({ toolCallId }) => void seen.push(`${toolCallId} starts`),
  onInputDelta: ({ inputTextDelta }) => void seen.push(inputTextDelta),
  onInputAvailable: ({ input }) => void seen.push(JSON.stringify(input)),
  execute: ({ n }) => {
    seen.push("runs");
    return n + 1;
  },
});
const input: LanguageModelV4StreamPart[] = [
  { type: "tool-input-start", id: "c1", toolName: "add" },
  { type: "tool-input-delta", id: "c1", delta: '{"n":' },
  { type: "tool-input-delta", id: "c1", delta: "1}" },
  { type: "tool-input-end", id: "c1" },
  { type: "tool-call", toolCallId: "c1", toolName: "add", input: '{"n":1}' },
];
const words: LanguageModelV4StreamPart[] = [
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "So be it" },
  { type: "text-end", id: "t" },
];
const found: LanguageModelV4StreamPart[] = [
  { type: "tool-call", toolCallId: "p1", toolName: "search", input: "{}", providerExecuted: true, dynamic: true },
  { type: "tool-result", toolCallId: "p1", toolName: "search", result: { found: 3 }, dynamic: true },
];
const usage = {
  inputTokens: { total: 5, noCache: 5, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 7, text: 7, reasoning: 0 },
};
const finish: LanguageModelV4StreamPart = {
  type: "finish",
  finishReason: { unified: "tool-calls", raw: "tool-calls" },
  usage,
};
const toAgent = (id: string, script: LanguageModelV4StreamPart[][]) =>
  defineAgent({ id, instructions: "x", model: scriptedModel([...script, ...script]), tools: { add }, maxSteps: 1 });
const agents = [
  toAgent("whole", [[...found, ...words, ...input, finish]]),
  toAgent("broken", [[...input, ...found, ...words, { type: "error", error: new Error("lost") }]]),
];

describeServer("a stream with tools", { config: { agents }, only: ["in process"] }, (server) => {
  const ask = async (id: string, conversationId: string | undefined) => {
    seen.splice(0);
    const { events } = await server.post(`/agents/${id}/stream`, { input: "go", options: { conversationId } });
    return (events as { type: string }[]).map(({ type }) => type);
  };

  it.each([undefined, "c"])("calls the callbacks of a tool's input as it arrives (conversation: %s)", async (id) => {
    const types = await ask("whole", id);
    expect(seen).toEqual(["c1 starts", '{"n":', "1}", '{"n":1}', "runs"]);
    const ofTools = types.filter((type) => type.startsWith("tool-") || type === "text-start");
    const ofInput = ["tool-input-start", "tool-input-delta", "tool-input-delta", "tool-input-end"];
    expect(ofTools).toEqual(["tool-call", "tool-result", "text-start", ...ofInput, "tool-call", "tool-result"]);
  });

  it.each([undefined, "c"])(
    "sends the words of a model call that fails after a tool call (conversation: %s)",
    async (id) => {
      const types = await ask("broken", id);
      expect(seen).not.toContain("runs");
      expect(types.filter((type) => type.startsWith("text-"))).toEqual(["text-start", "text-delta", "text-end"]);
      expect(types.at(-1)).toBe("error");
    },
  );
});
