// Each of these changes makes a test of this file fail: a ServeError that is shown with the name of its class, or another text
// after a restart.
import { defineAgent, defineTool, embedded, ServeError } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import { tool } from "ai";
import * as v from "valibot";
import { expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { createGates } from "../../harness/gates.ts";
import { startServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { newFile } from "../../workflows/waits/serve.ts";

const fail = (): string => {
  throw new ServeError(409, "Sold out");
};
const input = { description: "x", inputSchema: v.object({}) };
const sdkInput = { description: "x", inputSchema: z.object({}) };
const ended: unknown[] = [];
const tools = {
  own: defineTool({ ...input, execute: fail }),
  later: defineTool({ ...input, execute: async () => fail() }),
  sdk: tool({ ...sdkInput, execute: fail }),
  parts: tool({
    ...sdkInput,
    execute: async function* () {
      yield fail();
    },
  }),
  other: defineTool({
    ...input,
    execute: () => {
      throw new RangeError("Too much");
    },
  }),
};
const calls: ScriptedStep = {
  toolCalls: Object.keys(tools).map((toolName) => ({ toolName, toolCallId: toolName, input: {} })),
};
const shown = (prompt: any[]): string[] =>
  prompt
    .flatMap(({ role, content }) => (role === "tool" ? content : []))
    .map(({ toolName, output }) => `${toolName}: ${output.value}`)
    .toSorted();
const expected = [
  "later: Sold out",
  "other: RangeError: Too much",
  "own: Sold out",
  "parts: Sold out",
  "sdk: Sold out",
];

it.each([undefined, "c"])("shows a model the message of a ServeError (conversation: %s)", async (conversationId) => {
  const file = newFile();
  const gates = createGates();
  const open = async (...script: ScriptedStep[]) => {
    const model = scriptedModel(script);
    const hooks = { onToolEnd: ({ error }: { error?: unknown }) => void ended.push(error) };
    const agent = defineAgent({ id: "a", instructions: "x", model, tools, hooks, maxRetries: 0 });
    const config = { agents: [agent], backend: embedded({ path: file }), server: { limits: { drainMs: 1 } } };
    const server = await startServer("in process", { config });
    let closing: Promise<void> | undefined;
    const close = (): Promise<void> => (closing ??= server.close());
    onTestFinished(close);
    return { server, model, close };
  };
  const hold: ScriptedStep = async () => {
    await gates.pass("model");
    return "Never said.";
  };
  const first = await open(calls, conversationId ? hold : "Done.");
  const headers: Record<string, string> = conversationId ? { prefer: "respond-async" } : {};
  await first.server.post("/agents/a/text", { input: "go", options: { conversationId } }, { headers });
  if (conversationId) await gates.reached("model");
  expect(shown(first.model.calls[1]!.prompt)).toEqual(expected);
  expect(ended.splice(0).filter((error) => error instanceof ServeError)).toHaveLength(4);
  if (!conversationId) return;
  await first.close();
  const second = await open("Done.");
  await eventually(() => expect(second.model.calls).toHaveLength(1));
  expect(shown(second.model.calls[0]!.prompt)).toEqual(expected);
});
