import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { defineWorkflow } from "agentserve";
import { onFile } from "../harness/backends.ts";
import { createSharedFolder } from "../harness/folders.ts";
import { startServer, startTestServer } from "../harness/server.ts";
import { gates, timesRan, workflows } from "./fixtures.ts";

const folder = createSharedFolder("restart");
const config = { workflows, server: { limits: { drainMs: 50 } } };
const backend = onFile(join(folder, "data.db")); // each server continues what the one before it left there
const post = { method: "POST", headers: { "content-type": "application/json", prefer: "respond-async" } };

it("continues running executions after a restart without repeating recorded steps", async () => {
  const first = await startServer("start", { config, backend });
  await first.request("/workflows/gated/execute", {
    ...post,
    body: JSON.stringify({ input: { a: 1 }, options: { executionId: "r1", userId: "ann" } }),
  });
  await gates.reached("r1");
  const before = (await first.get("/workflows/gated/executions/r1/state")).body.data;
  await first.close(); // the step in flight does not end within the grace
  const second = await startTestServer("start", { config, backend });
  await expect.poll(() => timesRan("r1", "second")).toBe(2);
  gates.open("r1");
  await expect
    .poll(async () => (await second.get("/workflows/gated/executions/r1/state")).body.data.status)
    .toBe("completed");
  const after = (await second.get("/workflows/gated/executions/r1/state")).body.data;
  expect(after).toMatchObject({
    startAt: before.startAt,
    input: { a: 1 },
    context: { userId: "ann" },
    result: ["second", "third"],
  });
  expect([timesRan("r1", "first"), timesRan("r1", "third")]).toEqual([1, 1]);
  const { events } = await second.get("/workflows/gated/executions/r1/stream");
  expect(events.slice(0, -1).map(({ seq }) => seq)).toEqual(events.slice(0, -1).map((_, index) => index + 1));
});

it("keeps suspended executions at a shutdown, and answers waiting calls with 503 and the id", async () => {
  // With next to no grace: the connection must not be cut before the answer is out.
  const first = await startServer("start", { config: { ...config, server: { limits: { drainMs: 1 } } }, backend });
  await first.post("/workflows/ask/execute", { input: { amount: 9 }, options: { executionId: "r2" } });
  const waiting = first.post("/workflows/gated/execute", { input: {}, options: { executionId: "r3" } });
  await gates.reached("r3");
  const closed = first.close();
  const refused = await waiting;
  expect([refused.status, refused.body.error, refused.headers.get("x-execution-id")]).toEqual([
    503,
    "Server is shutting down",
    "r3",
  ]);
  await closed;
  const second = await startTestServer("start", { config, backend });
  const done = await second.post("/workflows/ask/executions/r2/resume", { resumeData: { approved: true } });
  expect(done.body.data).toMatchObject({ status: "completed", result: { data: { approved: true, times: 1 } } });
  gates.open("r3");
  await expect
    .poll(async () => (await second.get("/workflows/gated/executions/r3/state")).body.data.status)
    .toBe("completed");
});

it("lets a step finish within drainMs, and answers its caller", async () => {
  const only = defineWorkflow({ id: "only" }).andThen({
    id: "s",
    execute: ({ executionId }) => gates.pass(executionId).then(() => "made it"),
  });
  const server = await startServer("start", { config: { workflows: [only], server: { limits: { drainMs: 5_000 } } } });
  const waiting = server.post("/workflows/only/execute", { input: {}, options: { executionId: "r5" } });
  await gates.reached("r5");
  const closed = server.close();
  gates.open("r5");
  expect((await waiting).body.data).toMatchObject({ status: "completed", result: "made it" });
  await closed;
});

it("stops an execution that another process has changed in the file, and answers its caller", async () => {
  const server = await startTestServer("start", { config, backend });
  const waiting = server.post("/workflows/gated/execute", { input: {}, options: { executionId: "r6" } });
  await gates.reached("r6");
  const others = new DatabaseSync(join(folder, "data.db"));
  others.exec("update executions set epoch = epoch + 1 where id = 'r6'");
  others.close();
  gates.open("r6");
  const { status, body, headers } = await waiting;
  expect([status, body.error, headers.get("x-execution-id")]).toEqual([
    500,
    "Execution r6 is not running in this process. It continues at the next start",
    "r6",
  ]);
  expect(server.logs).toContainEqual(
    expect.objectContaining({ level: "error", message: expect.stringMatching(/^Execution stopped: /) }),
  );
});
