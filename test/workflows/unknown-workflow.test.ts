import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createToken, defineWorkflow, embedded, jwtAuth } from "agentserve";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chosenBackend } from "../harness/backends.ts";
import { describeInProcess, startServer, type TestServer } from "../harness/server.ts";

const removed = defineWorkflow({ id: "removed" }).andThen({
  id: "ask",
  execute: ({ suspend, resumeData }) => resumeData ?? suspend("Approve?"),
});
const kept = defineWorkflow({ id: "kept" }).andThen({ id: "only", execute: () => "done" });

/** Every endpoint under `/workflows/:id`. */
const endpoints: [method: "get" | "post", path: string, body?: object][] = [
  ["get", ""],
  ["post", "/execute", { input: {} }],
  ["post", "/stream", { input: {} }],
  ["get", "/executions"],
  ["get", "/executions?status=running&limit=5"],
  ["get", "/executions/e-1/state"],
  ["get", "/executions/e-1/steps"],
  ["get", "/executions/e-1/stream"],
  ["post", "/executions/e-1/suspend", {}],
  ["post", "/executions/e-1/resume", { resumeData: 1 }],
  ["post", "/executions/e-1/cancel", {}],
  ["post", "/executions/e-1/retry", {}],
  ["post", "/executions/e-1/fork", { from: "s" }],
];
const call = (server: TestServer, [method, path, body]: (typeof endpoints)[number], id: string) =>
  method === "get" ? server.get(`/workflows/${id}${path}`) : server.post(`/workflows/${id}${path}`, body);

describeInProcess("an unknown workflow", { workflows: [kept] }, (server) => {
  it("covers every endpoint under /workflows/:id", async () => {
    const { paths } = (await server.get("/doc")).body;
    const operations = Object.entries<object>(paths)
      .filter(([path]) => path.startsWith("/workflows/{id}"))
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`));
    const tested = endpoints.map(
      ([method, path]) => `${method} /workflows/{id}${path.replace(/\?.*/, "").replace("/e-1/", "/{executionId}/")}`,
    );
    expect(new Set(tested)).toEqual(new Set(operations));
  });

  it.each(endpoints)("names an unknown workflow in the 404 of %s /workflows/:id%s", async (...endpoint) => {
    const { status, body } = await call(server, endpoint, "nobody");
    expect([status, body]).toEqual([404, { success: false, error: "Workflow nobody not found" }]);
  });

  it("tells an unknown workflow from an unknown execution", async () => {
    await server.post("/workflows/kept/execute", { input: {}, options: { executionId: "e-1" } });
    for (const path of ["state", "stream"]) {
      const { status, body } = await server.get(`/workflows/kept/executions/e-2/${path}`);
      expect([status, body.error]).toEqual([404, "Execution e-2 not found"]);
    }
    const other = await server.get("/workflows/nobody/executions/e-1/state");
    expect(other.body.error).toBe("Workflow nobody not found");
    const { status, body } = await server.get("/workflows/kept/executions?status=running");
    expect([status, body.data]).toEqual([200, { items: [], nextCursor: null }]);
  });
});

describe("a workflow that was removed from the config", () => {
  const secret = "only for tests, and at least 32 bytes";
  const folder = mkdtempSync(join(tmpdir(), "agentserve-removed-"));
  // Both servers use one store: the second one is the first after the config has changed.
  const backend =
    chosenBackend.name === "embedded" ? embedded({ path: join(folder, "data.db") }) : chosenBackend.create();
  const options = { backend, auth: jwtAuth({ secret, ownership: true }) };
  const as = async (sub: string) => ({ headers: { authorization: `Bearer ${await createToken({ sub }, secret)}` } });
  let server: TestServer;
  beforeAll(async () => {
    const before = await startServer("in process", { config: { ...options, workflows: [removed] } });
    const { headers } = await as("ada");
    for (const executionId of ["e-1", "e-2"]) {
      const body = JSON.stringify({ input: {}, options: { executionId } });
      const init = { method: "POST", headers: { ...headers, "content-type": "application/json" }, body };
      await before.request("/workflows/removed/execute", init);
    }
    await before.close();
    server = await startServer("in process", { config: { ...options, workflows: [kept] } });
  });
  afterAll(async () => {
    await server.close();
    await chosenBackend.discard?.(backend);
    rmSync(folder, { recursive: true, force: true });
  });

  it("lists, shows and streams the executions of a removed workflow", async () => {
    const ada = await as("ada");
    const get = async (path: string) => server.request(`/workflows/removed/executions${path}`, ada);
    const { items } = (await get("")).body.data;
    expect(items.map(({ executionId }: any) => executionId)).toEqual(["e-2", "e-1"]);
    expect((await get("/e-1/state")).body.data).toMatchObject({ workflowId: "removed", status: "suspended" });
    expect((await get("/e-1/stream")).events.at(-1)).toMatchObject({ type: "workflow-result", status: "suspended" });
    // None of them is running, but the workflow has executions.
    const running = await get("?status=running");
    expect([running.status, running.body.data]).toEqual([200, { items: [], nextCursor: null }]);
  });

  it("hides a removed workflow from users without executions of it", async () => {
    const grace = await as("grace");
    for (const path of ["", "?status=suspended", "/e-1/state", "/e-1/stream"]) {
      const { status, body } = await server.request(`/workflows/removed/executions${path}`, grace);
      expect([status, body.error]).toEqual([404, "Workflow removed not found"]);
    }
  });

  it("refuses to execute or resume a removed workflow, and cancels its executions", async () => {
    const { headers } = await as("ada");
    const post = (path: string, body: object) =>
      server.request(`/workflows/removed${path}`, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    for (const [path, body] of [
      ["/execute", { input: {} }],
      ["/executions/e-1/suspend", {}],
      ["/executions/e-1/resume", { resumeData: 1 }],
    ] as const) {
      const answer = await post(path, body);
      expect([answer.status, answer.body.error]).toEqual([404, "Workflow removed not found"]);
    }
    expect((await post("/executions/e-2/cancel", {})).status).toBe(200);
  });
});
