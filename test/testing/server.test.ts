import { defineAgent, defineWorkflow, type AgentDefinition, type Config } from "agentserve";
import { restate } from "agentserve/backends/restate";
import { echoModel, scriptedModel } from "agentserve/models";
import { createClock, createServer } from "agentserve/testing";
import { expect, expectTypeOf, it, onTestFinished, vi } from "vitest";
import { withBounds } from "../harness/bounds.ts";

const fails = defineWorkflow({ id: "fails" }).andThen({
  id: "pay",
  execute: ({ logger }) => {
    logger.info("paying", { amount: 3 });
    throw new Error("no money");
  },
});

function serve(config: Config) {
  const server = createServer(config);
  onTestFinished(() => server.close());
  const init = { method: "POST", headers: { "content-type": "application/json" } };
  const post = async (path: string, body: object) =>
    (await server.fetch(new Request(`http://localhost${path}`, { ...init, body: JSON.stringify(body) }))).json() as any;
  return { server, post };
}

it("a test server logs nothing to the terminal or to the logger of the config, and keeps the records", async () => {
  const write = [process.stdout, process.stderr].map((stream) => vi.spyOn(stream, "write").mockReturnValue(true));
  onTestFinished(() => write.forEach((spy) => spy.mockRestore()));
  const logger = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const { server, post } = serve({ workflows: [fails], logger });
  await post("/workflows/fails/execute", { input: {}, options: { executionId: "f-1" } });
  expect([...write, ...Object.values(logger)].flatMap((spy) => spy.mock.calls)).toEqual([]);
  expect(server.logs()).toMatchObject([
    { level: "info", message: "paying", data: { amount: 3 }, executionId: "f-1", workflowId: "fails", stepId: "pay" },
    { level: "error", message: "Step failed", error: expect.stringContaining("no money"), executionId: "f-1" },
  ]);
});

it("a test server keeps as many log records as logRecords", async () => {
  const chatty = defineWorkflow({ id: "chatty" }).andThen({
    id: "say",
    execute: ({ logger }) => {
      for (let n = 0; n < 50; n++) logger.info(String(n));
    },
  });
  const { server, post } = serve(withBounds({ logRecords: 10 }, { workflows: [chatty] }));
  await post("/workflows/chatty/execute", { input: {} });
  expect(server.logs().map(({ message }) => message)).toEqual(Array.from({ length: 10 }, (_, n) => String(40 + n)));
});

it("a test server is in memory and starts empty", async () => {
  const done = defineWorkflow({ id: "done" }).andThen({ id: "only", execute: () => 1 });
  for (let n = 0; n < 2; n++) {
    const { post } = serve({ workflows: [done], backend: undefined });
    const { success } = await post("/workflows/done/execute", { input: {}, options: { executionId: "same" } });
    expect(success).toBe(true);
  }
});

it("a test server refuses a clock for a backend that has its own", () => {
  const backend = restate({
    ingress: "http://127.0.0.1:1",
    admin: "http://127.0.0.1:1",
    name: "x",
    serve: { port: 0 },
  });
  expect(() => createServer({ backend }, { clock: createClock() })).toThrow(
    "createServer(config, { clock }): expected an embedded backend, found restate",
  );
});

it("a test server serves agents with another model, whose ids stay literal types", async () => {
  const support = defineAgent({ id: "support", instructions: "Help.", model: "openai/gpt-5" });
  const tested = support.with({ model: scriptedModel(["hello"]) });
  expectTypeOf(tested).toExtend<AgentDefinition<"support">>();
  expectTypeOf(tested.id).toEqualTypeOf<"support">();
  const { post } = serve({ agents: [tested] });
  expect((await post("/agents/support/text", { input: "hi" })).data.text).toBe("hello");
  expect(support.with({ model: echoModel() }).id).toBe("support");
});
