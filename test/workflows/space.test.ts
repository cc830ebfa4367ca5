import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineAgent, defineWorkflow, embedded, type EmbeddedBackendOptions } from "agentserve";
import { echoModel } from "agentserve/models";
import { expect, it, onTestFinished } from "vitest";
import { startServer, type TestServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

const talker = defineAgent({ id: "talker", instructions: "Talk", model: echoModel() });
const workflows = [
  defineWorkflow({ id: "quick" }).andThen({ id: "only", execute: () => "done" }),
  defineWorkflow({ id: "asks" })
    .andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend() })
    .andAgent({ id: "talk", agent: talker, prompt: () => "Hello" }),
];
const warning = "The store is full: new executions and turns of conversations are refused";

async function serve(limits: object, options: EmbeddedBackendOptions = {}): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-space-"));
  const backend = embedded({ ...options, path: join(folder, "data.db") });
  const server = await startServer("start", { config: { agents: [talker], workflows, backend, server: { limits } } });
  onTestFinished(async () => {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return server;
}
const execute = (server: TestServer, executionId: string, workflow = "quick", pad = "") =>
  server.post(`/workflows/${workflow}/execute`, { input: { pad }, options: { executionId } });
const talk = (server: TestServer, options = {}) => server.post("/agents/talker/text", { input: "Hello", options });
/** Eight at once: on a busy machine, retention would remove single ones as fast as they come. */
const untilFull = (server: TestServer) =>
  eventually(async () => {
    const one = () => execute(server, crypto.randomUUID(), "quick", "x".repeat(1_000_000));
    const answers = await Promise.all(Array.from({ length: 8 }, one));
    expect(answers.map(({ status }) => status)).toContain(507);
  });

it("refuses new work with 507 at limits.storeBytes, and nothing that has begun", async () => {
  const server = await serve({ storeBytes: 3_000_000 });
  for (const id of ["a", "b"])
    await server.post("/workflows/asks/execute", { input: {}, options: { executionId: id } });
  const known = { name: "go", data: 1, id: "known" };
  expect((await server.post("/events", known)).status).toBe(202);
  await untilFull(server);
  const refused = [
    await execute(server, "new"),
    await server.post("/workflows/quick/stream", { input: {}, options: { executionId: "new" } }),
    await talk(server, { conversationId: "c" }),
    await server.post("/events", { ...known, id: "new" }),
  ];
  expect(refused.map(({ status, body }) => [status, body.error])).toEqual([
    [507, "Storage is full: nothing was started"],
    [507, "Storage is full: nothing was started"],
    [507, "Storage is full: the call was not started"],
    [507, "Storage is full: nothing was sent"],
  ]);
  // Sent again, by a client that got no answer.
  expect((await server.post("/events", known)).status).toBe(202);
  expect((await server.post("/events", { ...known, data: 2 })).status).toBe(409);
  expect((await server.get("/workflows/quick/executions/new/state")).status).toBe(404);
  expect((await execute(server, "a", "asks")).status).toBe(409);
  expect((await talk(server)).status).toBe(200);
  const resumed = await server.post("/workflows/asks/executions/a/resume", { resumeData: 1 });
  expect(resumed.body.data).toMatchObject({ status: "completed" });
  expect((await server.post("/workflows/asks/executions/b/cancel", {})).status).toBe(200);
  expect(server.logs.filter(({ message }) => message === warning).length).toBe(1);
});

it("accepts new work again when retention has made space", async () => {
  const server = await serve({ storeBytes: 12_000_000 }, { retention: "4s" });
  await untilFull(server);
  await eventually(async () => expect((await execute(server, crypto.randomUUID())).status).toBe(200));
  expect(server.logs.map(({ message }) => message)).toContain("The store has space again");
});

it("refuses new work with 507 while the disk has less than limits.storeFreeBytes", async () => {
  const server = await serve({ storeFreeBytes: Number.MAX_SAFE_INTEGER });
  expect((await execute(server, "a")).status).toBe(507);
  expect(server.logs.find(({ message }) => message === warning)!.data).toMatchObject({
    reason: `the disk has less than limits.storeFreeBytes (${Number.MAX_SAFE_INTEGER} bytes) free`,
  });
});

it("accepts any size with storeBytes and storeFreeBytes at 0", async () => {
  const server = await serve({ storeFreeBytes: 0, storeBytes: 0 });
  expect((await execute(server, "a")).status).toBe(200);
});
