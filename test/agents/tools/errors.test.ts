// Each of these changes makes a test of this file fail: a ServeError that is shown with the name of its class, another text
// after a restart, the text of a tool's own error in a record, an answer or a prompt, an error that is logged twice.
import { agentTool, defineTool, defineWorkflow, ServeError, workflowTool } from "agentserve";
import type { ScriptedStep } from "agentserve/models";
import { tool } from "ai";
import * as v from "valibot";
import { expect, it } from "vitest";
import { z } from "zod";
import { eventually } from "../../harness/waiting.ts";
import { newFile } from "../../harness/folders.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";
import { createAgent, held, live } from "../turns/lives.ts";

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
  slow: defineTool({ ...input, execute: () => Promise.reject(new DOMException("After 5 s", "TimeoutError")) }),
};
const calls: ScriptedStep = {
  toolCalls: Object.keys(tools).map((toolName) => ({ toolName, toolCallId: toolName, input: {} })),
};
const shown = (prompt: any[]): string[] =>
  prompt
    .flatMap(({ role, content }) => (role === "tool" ? content : []))
    .map(({ toolName, output }) => `${toolName}: ${output.value}`)
    .toSorted();
const failuresOf = ({ logs }: TestServer) => logs.filter(({ message }) => message === "Tool failed");
const errorsOf = async (server: TestServer) =>
  /agentserve_tool_errors_total\{agent="a"\} (\d+)/.exec((await server.get("/metrics")).text)?.[1];
const expected = [
  "later: Sold out",
  "other: Tool other failed",
  "own: Sold out",
  "parts: Sold out",
  "sdk: Sold out",
  "slow: TimeoutError: After 5 s",
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
  expect(ended).toContainEqual(new RangeError("Too much")); // a hook gets the error of the tool
  expect(
    failuresOf(first.server)
      .map(({ data }) => data!["tool"])
      .toSorted(),
  ).toEqual(Object.keys(tools).toSorted());
  expect(failuresOf(first.server)).toContainEqual({
    level: "warn",
    message: "Tool failed",
    data: expect.objectContaining({ tool: "other", toolCallId: "other", error: new RangeError("Too much") }),
  });
  expect(await errorsOf(first.server)).toBe("6");
  await first.close();
  const second = await live(file, { script: ["Done."], agent: { tools } });
  await eventually(() => expect(second.model.calls).toHaveLength(1));
  expect(shown(second.model.calls[0]!.prompt)).toEqual(expected);
  expect(failuresOf(second.server)).toEqual([]);
  expect(await errorsOf(second.server)).toBe("0");
});

it("shows a model the message of a ServeError without a conversation", async () => {
  const { server, model } = await live(newFile(), { script: [calls, "Done."], agent: { tools } });
  await server.post("/agents/a/text", { input: "go" });
  expect(shown(model.calls[1]!.prompt)).toEqual(expected);
});

const secret = "postgres://ada:pw@10.0.0.7";
const leaks = {
  own: defineTool({ ...input, execute: () => Promise.reject(new Error(secret)) }),
  parts: tool({
    ...sdkInput,
    execute: async function* () {
      yield "first";
      throw new Error(secret);
    },
  }),
};
const leaking: ScriptedStep = {
  toolCalls: Object.keys(leaks).map((toolName) => ({ toolName, toolCallId: toolName, input: {} })),
};

it.each(["text", "stream", "chat"])(
  "hides the text of a tool's own error from model and client of %s",
  async (route) => {
    for (const conversationId of [undefined, "c"]) {
      const { server, model } = await live(newFile(), { script: [leaking, "Done."], agent: { tools: leaks } });
      const one = [{ id: "m1", role: "user", parts: [{ type: "text", text: "go" }] }];
      const options = { userId: "ada", conversationId };
      const { text } = await server.post(`/agents/a/${route}`, { input: route === "chat" ? one : "go", options });
      expect(text).toContain("Tool own failed");
      expect(text).toContain("Tool parts failed");
      const stored = conversationId ? await server.get("/agents/a/conversations/c?userId=ada") : { text: "" };
      if (conversationId) expect(stored.text).toContain("Tool own failed");
      expect([text, stored.text, JSON.stringify(model.calls)].join()).not.toContain(secret);
      expect(failuresOf(server)).toHaveLength(2);
    }
  },
);

it("shows the text of a tool's own error in dev", async () => {
  const { agent, model } = createAgent([leaking, "Done."], { tools: leaks });
  const server = await startTestServer("dev", { config: { agents: [agent] } });
  const { body } = await server.post("/agents/a/text", { input: "go" });
  expect(body.data.toolResults).toMatchObject([{ error: secret }, { error: secret }]);
  expect(shown(model.calls[1]!.prompt)).toEqual([`own: Error: ${secret}`, `parts: Error: ${secret}`]);
});

it("logs and counts the failure of a workflowTool and of an agentTool, without the inner error in the answer", async () => {
  const workflow = defineWorkflow({ id: "w" }).andThen({
    id: "s",
    execute: () => {
      throw new Error(secret);
    },
  });
  const inner = createAgent([new Error(secret)], { id: "inner" }).agent;
  const both = {
    flow: workflowTool(workflow, { description: "x" }),
    ask: agentTool(inner, { description: "x" }),
  };
  const script: ScriptedStep[] = [
    {
      toolCalls: [
        { toolName: "flow", toolCallId: "flow", input: {} },
        { toolName: "ask", toolCallId: "ask", input: { prompt: "x" } },
      ],
    },
    "Done.",
  ];
  const { agent, model } = createAgent(script, { tools: both });
  const server = await startTestServer("in process", { config: { agents: [agent, inner], workflows: [workflow] } });
  const { text } = await server.post("/agents/a/text", { input: "go" });
  expect(shown(model.calls[1]!.prompt)).toEqual(["ask: Model call failed", "flow: Failed to execute workflow"]);
  expect(text).not.toContain(secret);
  expect(
    failuresOf(server)
      .map(({ data }) => data!["tool"])
      .toSorted(),
  ).toEqual(["ask", "flow"]);
  expect(await errorsOf(server)).toBe("2");
});
