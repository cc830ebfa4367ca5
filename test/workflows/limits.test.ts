import { join } from "node:path";
import { expect, it } from "vitest";
import { defineWorkflow, embedded } from "agentserve";
import { chosenBackend, onFile } from "../harness/backends.ts";
import { createSharedFolder } from "../harness/folders.ts";
import { createGates } from "../harness/gates.ts";
import { startServer, startTestServer, type TestServer } from "../harness/server.ts";

const folder = createSharedFolder("limits");

let gates = createGates();
let began: string[] = [];
const gated = defineWorkflow({ id: "gated" })
  .andThen({
    id: "a",
    execute: async ({ executionId }) => {
      began.push(executionId);
      await gates.pass(executionId);
    },
  })
  .andThen({ id: "b", execute: () => "done" });
const asks = defineWorkflow({ id: "asks" }).andThen({
  id: "ask",
  execute: ({ suspend, resumeData }) => resumeData ?? suspend(),
});
const fails = defineWorkflow({ id: "fails", recovery: "fail" }).andThen({
  id: "a",
  execute: ({ executionId }) => gates.pass(executionId),
});

/** A server; with a file, for tests of a restart. */
function setUp(limits: Record<string, number>, file?: string): Promise<TestServer> {
  gates = createGates();
  began = [];
  const config = { workflows: [gated, asks, fails], server: { limits: { drainMs: 1, ...limits } } };
  return startServer("start", { config, ...(file && { backend: onFile(join(folder, file)) }) });
}

const begin = (server: TestServer, executionId: string, workflow = "gated") =>
  server.request(`/workflows/${workflow}/execute`, {
    method: "POST",
    headers: { "content-type": "application/json", prefer: "respond-async" },
    body: JSON.stringify({ input: {}, options: { executionId } }),
  });
const statusOf = async (server: TestServer, id: string, workflow = "gated") =>
  (await server.get(`/workflows/${workflow}/executions/${id}/state`)).body.data.status;

it("runs and queues as many executions as the limits allow, and refuses more with 503 and Retry-After", async () => {
  const server = await setUp({ runningExecutions: 2, queuedExecutions: 3 });
  const { executionId: parked } = (await server.post("/workflows/asks/execute", { input: {} })).body.data;
  const ids = ["e1", "e2", "e3", "e4", "e5"];
  for (const id of ids) expect((await begin(server, id)).status).toBe(202);
  const refusals = [
    await begin(server, "e6"),
    await server.post("/workflows/gated/stream", { input: {}, options: { executionId: "e6" } }),
    await server.post(`/workflows/asks/executions/${parked}/resume`, { resumeData: 1 }),
  ];
  for (const { status, body, headers } of refusals)
    expect([status, body.error, headers.get("retry-after")]).toEqual([503, "Too many executions are running", "1"]);
  expect((await server.get("/workflows/gated/executions/e6/state")).status).toBe(404);
  expect(await statusOf(server, parked, "asks")).toBe("suspended");
  expect(began).toEqual(["e1", "e2"]);
  for (const id of ids) expect(await statusOf(server, id)).toBe("running");

  // One who waits can be suspended: it gives its place up, at the latest when its replica has heard of it.
  expect((await server.post("/workflows/gated/executions/e3/suspend", {})).status).toBe(200);
  if (chosenBackend.isDistributed) await expect.poll(async () => (await begin(server, "e6")).status).toBe(202);
  else expect((await begin(server, "e6")).status).toBe(202);
  expect((await begin(server, "e7")).status).toBe(503);
  gates.open("e1");
  await gates.reached("e4");
  expect(began).toEqual(["e1", "e2", "e4"]);
  gates.open("e2");
  await gates.reached("e5");
  for (const id of ["e4", "e5", "e6"]) gates.open(id);
  for (const id of ["e1", "e2", "e4", "e5", "e6"]) await expect.poll(() => statusOf(server, id)).toBe("completed");
  expect(began).toEqual(["e1", "e2", "e4", "e5", "e6"]);

  const resumed = server.post("/workflows/gated/executions/e3/resume", {});
  gates.open("e3");
  expect((await resumed).body.data.status).toBe("completed");
  const asked = await server.post(`/workflows/asks/executions/${parked}/resume`, { resumeData: 1 });
  expect(asked.body.data).toMatchObject({ status: "completed", result: 1 });
  await server.close();
});

it("counts executions that begin at the same moment against the limits", async () => {
  const server = await setUp({ runningExecutions: 3, queuedExecutions: 4 });
  const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => begin(server, `e${index}`)));
  expect(answers.map(({ status }) => status).toSorted()).toEqual([...Array(7).fill(202), ...Array(13).fill(503)]);
  expect(began).toHaveLength(3);
  await server.close();
});

it("keeps to runningExecutions at recovery: the others wait for their turn, in order", async () => {
  const first = await setUp({}, "recovery.db");
  const ids = ["e1", "e2", "e3", "e4", "e5"];
  for (const id of ids) expect((await begin(first, id)).status).toBe(202);
  await Promise.all(ids.map((id) => gates.reached(id)));
  await first.close();
  const second = await setUp({ runningExecutions: 2, queuedExecutions: 1 }, "recovery.db");
  await Promise.all([gates.reached("e1"), gates.reached("e2")]);
  expect((await begin(second, "e6")).status).toBe(503);
  expect(began).toEqual(["e1", "e2"]);
  for (const id of ids) gates.open(id);
  for (const id of ids) await expect.poll(() => statusOf(second, id)).toBe("completed");
  expect(began).toEqual(ids);
  expect((await begin(second, "e6")).status).toBe(202);
  await second.close();
});

it("ends running executions with an error after a restart with recovery: fail", async () => {
  const first = await setUp({}, "fails.db");
  await begin(first, "e1", "fails");
  await gates.reached("e1");
  await first.close();
  const second = await setUp({}, "fails.db");
  const { data } = (await second.get("/workflows/fails/executions/e1/state")).body;
  expect(data).toMatchObject({ status: "error", error: "Interrupted by a restart" });
  const { events } = await second.get("/workflows/fails/executions/e1/stream");
  expect(events.map(({ type }) => type)).toEqual(["workflow-start", "step-start", "workflow-error", "workflow-result"]);
  await second.close();
});

it("removes ended executions once their retention is over, and never suspended ones", async () => {
  gates = createGates();
  const backend = onFile(join(folder, "retention.db"), { retention: "1s" }); // an option of this backend
  const server = await startTestServer("start", { config: { workflows: [asks] }, backend });
  const ids: string[] = [];
  for (let i = 0; i < 250; i++)
    ids.push((await server.post("/workflows/asks/execute", { input: {} })).body.data.executionId);
  const [kept, ...others] = ids as [string, ...string[]];
  await Promise.all(others.map((id) => server.post(`/workflows/asks/executions/${id}/resume`, { resumeData: 1 })));
  const list = async () => (await server.get("/workflows/asks/executions?limit=200")).body.data.items;
  await expect.poll(async () => (await list()).length).toBe(1);
  expect((await server.get(`/workflows/asks/executions/${others[0]}/state`)).status).toBe(404);
  expect((await server.post(`/workflows/asks/executions/${kept}/resume`, { resumeData: 2 })).body.data.result).toBe(2);
});

it.each([
  [
    { retention: "7 days" },
    'embedded({ retention }): expected false or a duration such as "30m", "12h" or "7d", found "7 days"',
  ],
  [
    { retention: "0d" },
    'embedded({ retention }): expected false or a duration such as "30m", "12h" or "7d", found "0d"',
  ],
  [
    { retention: { suspended: "long" } },
    'embedded({ retention.suspended }): expected false or a duration such as "30m", "12h" or "7d", found "long"',
  ],
  [{ retention: { ended: "1d" } }, 'embedded({ retention }): unknown option "ended"'],
  [{ durability: "none" }, 'embedded({ durability }): expected "normal" or "full", found "none"'],
  [{ path: "" }, 'embedded({ path }): expected a file path, found ""'],
])("refuses embedded(%j)", (options, message) => {
  expect(() => embedded(options as never)).toThrow(message);
});
