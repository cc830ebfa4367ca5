// Each of these changes makes a test of this file fail: tools that are loaded with the config, or at each call; a failure that is
// kept; a wrong tool that reaches the model; a tool without a workflow; a function that never returns.
import { defineAgent, defineTool, workflowTool, type DefineAgentOptions } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { expect, it, vi } from "vitest";
import { loadTools } from "../../../src/agents/prepared-agents.ts";
import { newFile } from "../../harness/folders.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { createAgent, held, live } from "../turns/lives.ts";

const inputSchema = v.object({ city: v.string() });
const sky = defineTool({ description: "Tells the sky", inputSchema, execute: ({ city }) => `blue in ${city}` });
const call: ScriptedStep = { toolCalls: [{ toolName: "sky", toolCallId: "c1", input: { city: "Rome" } }] };

async function serve(tools: DefineAgentOptions["tools"], script: ScriptedStep[] = []) {
  const { agent, model } = createAgent(script, { tools });
  return { model, server: await startTestServer("in process", { config: { agents: [agent] } }) };
}
const ask = (server: TestServer) => server.post("/agents/a/text", { input: "go" });
const failuresIn = ({ logs }: TestServer): string =>
  logs.map(({ data }) => String((data?.["error"] as Error | undefined)?.message)).join();

it("calls a function for tools once, at the first call of the agent", async () => {
  const load = vi.fn(async () => ({ sky }));
  const { server } = await serve(load, [call, call, "done", "done", "done"]);
  expect((await server.get("/agents/a")).body.data.tools).toBeNull();
  expect((await server.get("/agents")).body.data[0].tools).toBeNull();
  expect((await server.get("/", { headers: { accept: "text/html" } })).text).not.toContain("Tells the sky");
  expect(load).not.toHaveBeenCalled();
  const answers = await Promise.all([ask(server), ask(server)]);
  const outputs = answers.flatMap(({ body }) => body.data.toolResults.map(({ output }: any) => output));
  expect(outputs).toContain("blue in Rome");
  await ask(server);
  expect(load).toHaveBeenCalledTimes(1);
  const [tool] = (await server.get("/agents/a")).body.data.tools;
  expect(tool).toMatchObject({ name: "sky", description: "Tells the sky", inputSchema: { required: ["city"] } });
  expect((await server.get("/agents")).body.data[0].tools).toEqual([{ name: "sky", description: "Tells the sky" }]);
});

it("calls a function for tools again after it has failed, and shows its error in the log only", async () => {
  const load = vi.fn(async () => ({ sky })).mockRejectedValueOnce(new Error("no connection to 10.0.0.7"));
  const { server } = await serve(load, [call, "done"]);
  const failed = await ask(server);
  expect([failed.status, failed.text]).toEqual([500, expect.not.stringContaining("10.0.0.7")]);
  expect(failuresIn(server)).toContain("no connection to 10.0.0.7");
  expect((await server.get("/agents/a")).body.data.tools).toBeNull();
  expect((await ask(server)).body.data.toolResults).toMatchObject([{ output: "blue in Rome" }]);
  expect(load).toHaveBeenCalledTimes(2);
});

it.each<[string, unknown, string]>([
  ["no object", [sky], "agent a: tools: expected an object of tools by name"],
  ["nothing", undefined, "agent a: tools: expected an object of tools by name"],
  ["no tool", { sky: {} }, "agent a: tools: expected an object of tools by name"],
  ["a tool of no workflow", { pay: workflowTool("pay") }, "agent a: tool pay: there is no workflow pay"],
])("refuses a call of an agent whose function for tools returns %s", async (_, tools, message) => {
  const { server, model } = await serve(() => tools as never, ["never said"]);
  expect((await ask(server)).status).toBe(500);
  expect(failuresIn(server)).toContain(message);
  expect(model.calls).toEqual([]);
});

it("fails a function for tools that has returned nothing after 30 seconds", async () => {
  const agent = defineAgent({
    id: "a",
    instructions: "x",
    model: scriptedModel([]),
    tools: () => new Promise(() => {}),
  });
  vi.useFakeTimers();
  try {
    const loading = loadTools(agent, { hasAgent: () => true, hasWorkflow: () => true });
    const failure = expect(loading).rejects.toThrow(
      "agent a: tools: the function has returned no tools within 30 seconds",
    );
    await vi.advanceTimersByTimeAsync(30_000);
    await failure;
  } finally {
    vi.useRealTimers();
  }
});

it("continues a turn after a restart with the tools that a function returns there", async () => {
  const file = newFile();
  const hold = held("never said");
  const execute = vi.fn(() => "paid");
  const agent = { tools: () => ({ pay: defineTool({ description: "Pays", inputSchema, execute }) }) };
  const pay: ScriptedStep = { toolCalls: [{ toolName: "pay", toolCallId: "p1", input: { city: "Rome" } }] };
  const first = await live(file, { script: [pay, hold.step], agent });
  await first.begin("go");
  await hold.reached;
  await first.close();
  const second = await live(file, { script: [pay, "Paid twice."], agent });
  await eventually(() => expect(second.model.calls).toHaveLength(2));
  expect(execute).toHaveBeenCalledTimes(2);
});
