import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { defineWorkflow } from "agentserve";
import { restate, type RestateBackendOptions } from "../../src/backends/restate/define.ts";
import type { TestBackend } from "../harness/backends.ts";
import { patienceMs as patience } from "../harness/patience.ts";
import { startServer } from "../harness/server.ts";
import { freePort } from "./restate-server.ts";
import { gates, timesRan, workflows } from "../workflows/fixtures.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

/** A backend with one URL: each server continues what the one before it left. */
async function createBackend(options: Partial<RestateBackendOptions> = {}): Promise<TestBackend> {
  const port = await freePort();
  const name = `test-${randomUUID()}`;
  return { name: "restate", create: () => restate({ ingress, admin, name, serve: { port }, ...options }) };
}
const limits = { drainMs: 50 };
const async = { method: "POST", headers: { "content-type": "application/json", prefer: "respond-async" } };
const toBody = (executionId: string) => JSON.stringify({ input: {}, options: { executionId } });

/** A workflow whose second step hangs until it runs on a later version. */
const hanging = (version: number, names: [string, string, string], recovery: "resume" | "fail" = "resume") =>
  defineWorkflow({ id: "changing", recovery })
    .andThen({ id: names[0], execute: () => "a" })
    .andThen({ id: names[1], execute: ({ data }) => (version === 1 ? hang() : `${data}b`) })
    .andThen({ id: names[2], execute: ({ data }) => `${data}c` });

let hung = 0;
const hang = (): Promise<string> => (hung++, new Promise(() => {}));

async function change(before: ReturnType<typeof hanging>, after: ReturnType<typeof hanging>) {
  const backend = await createBackend();
  const count = hung;
  const first = await startServer("start", {
    config: { workflows: [before], server: { limits } },
    backend,
  });
  await first.request("/workflows/changing/execute", { ...async, body: toBody("rs2") });
  await expect.poll(() => hung, { timeout: patience }).toBe(count + 1);
  await first.close();
  const second = await startServer("start", {
    config: { workflows: [after], server: { limits } },
    backend,
  });
  const stateOf = async () => (await second.get("/workflows/changing/executions/rs2/state")).body.data;
  await expect.poll(async () => (await stateOf()).status, { timeout: patience }).not.toBe("running");
  return { second, state: await stateOf() };
}

describe("a replica on Restate that is started again", () => {
  it("a restarted replica continues an execution without its recorded steps", { timeout: patience }, async () => {
    const backend = await createBackend();
    const config = { workflows, server: { limits } };
    const first = await startServer("start", { config, backend });
    await first.request("/workflows/gated/execute", { ...async, body: toBody("rs1") });
    await gates.reached("rs1");
    await first.close();
    const second = await startServer("start", { config, backend });
    await expect.poll(() => timesRan("rs1", "second"), { timeout: patience }).toBe(2);
    gates.open("rs1");
    const stateOf = async () => (await second.get("/workflows/gated/executions/rs1/state")).body.data;
    await expect.poll(async () => (await stateOf()).status, { timeout: patience }).toBe("completed");
    expect([timesRan("rs1", "first"), timesRan("rs1", "third")]).toEqual([1, 1]);
    const { events } = await second.get("/workflows/gated/executions/rs1/stream");
    expect(events.slice(0, -1).map(({ seq }) => seq)).toEqual(events.slice(0, -1).map((_, index) => index + 1));
    await second.close();
  });

  it(
    'recovery: "fail" ends an execution that a restart of the replica has interrupted',
    { timeout: patience },
    async () => {
      const names: [string, string, string] = ["s1", "s2", "s3"];
      const { second, state } = await change(hanging(1, names, "fail"), hanging(2, names, "fail"));
      expect(state).toMatchObject({ status: "error", error: "Interrupted by a restart" });
      await second.close();
    },
  );

  it("retention removes an execution that has ended", { timeout: patience }, async () => {
    const backend = await createBackend({ retention: "1s" });
    const server = await startServer("start", { config: { workflows }, backend });
    gates.open("rs3");
    const ended = await server.post("/workflows/gated/execute", { input: {}, options: { executionId: "rs3" } });
    expect(ended.body.data).toMatchObject({ status: "completed" });
    const status = async () => (await server.get("/workflows/gated/executions/rs3/state")).status;
    await expect.poll(status, { timeout: patience }).toBe(404);
    expect((await server.get("/workflows/gated/executions")).body.data).toMatchObject({ items: [] });
    await server.close();
  });

  it("retention removes an execution that was cancelled while it ran", { timeout: patience }, async () => {
    const backend = await createBackend({ retention: "1s" });
    const server = await startServer("start", { config: { workflows }, backend });
    await server.request("/workflows/gated/execute", { ...async, body: toBody("rs5") });
    await gates.reached("rs5");
    expect((await server.post("/workflows/gated/executions/rs5/cancel", {})).status).toBe(200);
    const status = async () => (await server.get("/workflows/gated/executions/rs5/state")).status;
    await expect.poll(status, { timeout: patience }).toBe(404);
    await server.close();
  });

  it("retention.suspended removes what waits for a person, and no sleeper", { timeout: patience }, async () => {
    const backend = await createBackend({ retention: { suspended: "1s" } });
    const asks = defineWorkflow({ id: "asks" }).andThen({ id: "ask", execute: ({ suspend }) => suspend("Ok?") });
    const sleeps = defineWorkflow({ id: "sleeps" }).andSleep({ id: "nap", duration: "4s" });
    const config = { workflows: [asks, sleeps], server: { limits: { inlineSleepMs: 100 } } };
    const server = await startServer("start", { config, backend });
    for (const id of ["sleeps", "asks"])
      await server.request(`/workflows/${id}/execute`, { ...async, body: toBody(`rs6-${id}`) });
    const state = (id: string) => server.get(`/workflows/${id}/executions/rs6-${id}/state`);
    await expect.poll(async () => (await state("asks")).status, { timeout: patience }).toBe(404);
    const { data } = (await state("sleeps")).body;
    expect(["suspended", "completed"]).toContain(data.status);
    await expect.poll(async () => (await state("sleeps")).body.data.status, { timeout: patience }).toBe("completed");
    await server.close();
  });

  it("a replica starts without Restate and answers 503", { timeout: patience }, async () => {
    const dead = `http://127.0.0.1:${await freePort()}`;
    const backend = await createBackend({ ingress: dead, admin: dead });
    const server = await startServer("start", { config: { workflows }, backend });
    const answer = await server.send("/workflows/gated/execute", { ...async, body: toBody("rs4") });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
    expect((await server.send("/workflows", {})).status).toBe(200);
    await server.close();
  });
});
