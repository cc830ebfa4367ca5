// Each of these changes makes a test of this file fail: a ServeError that is shown with the name of its class, or another text
// after a restart.
import { defineTool, ServeError } from "agentserve";
import type { ScriptedStep } from "agentserve/models";
import { tool } from "ai";
import * as v from "valibot";
import { expect, it } from "vitest";
import { z } from "zod";
import { eventually } from "../../harness/waiting.ts";
import { newFile } from "../../harness/folders.ts";
import { held, live } from "../turns/lives.ts";

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

it("shows a model the message of a ServeError, also after a restart", async () => {
  const file = newFile();
  const hooks = { onToolEnd: ({ error }: { error?: unknown }) => void ended.push(error) };
  const hold = held("Never said.");
  const first = await live(file, { script: [calls, hold.step], agent: { tools, hooks } });
  await first.begin("go");
  await hold.reached;
  expect(shown(first.model.calls[1]!.prompt)).toEqual(expected);
  expect(ended.filter((error) => error instanceof ServeError)).toHaveLength(4);
  await first.close();
  const second = await live(file, { script: ["Done."], agent: { tools } });
  await eventually(() => expect(second.model.calls).toHaveLength(1));
  expect(shown(second.model.calls[0]!.prompt)).toEqual(expected);
});

it("shows a model the message of a ServeError without a conversation", async () => {
  const { server, model } = await live(newFile(), { script: [calls, "Done."], agent: { tools } });
  await server.post("/agents/a/text", { input: "go" });
  expect(shown(model.calls[1]!.prompt)).toEqual(expected);
});
