import { once } from "node:events";
import { join } from "node:path";
import { createServer, defineAgent, embedded, defineWorkflow, type Config } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { describe, expect, it, onTestFinished } from "vitest";
import { createToken, jwtAuth } from "../../../src/auth/jwt.ts";
import { withBounds } from "../../harness/bounds.ts";
import { onFile } from "../../harness/backends.ts";
import { createFolder } from "../../harness/folders.ts";
import { describeServer, startServer, startTestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { parseExposition, valuesOf, type Family } from "./exposition.ts";

const secret = "x".repeat(32);
const silent = { info() {}, warn() {}, error() {} };

/** Serves a config in process. Returns functions that send a request, and read the numbers. */
function serve(config: Config) {
  const server = createServer({ backend: embedded({ path: ":memory:" }), logger: silent, ...config });
  onTestFinished(() => server.close());
  const send = (path: string, init?: RequestInit): Promise<Response> =>
    server.fetch(new Request(`http://localhost${path}`, init));
  const read = async (): Promise<Map<string, Family>> => parseExposition(await (await send("/metrics")).text());
  return { send, read };
}

describeServer("GET /metrics", { only: ["start"] }, (server) => {
  it("answers GET /metrics with Prometheus text that no cache stores", async () => {
    const { status, headers, text } = await server.get("/metrics");
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-store");
    const families = parseExposition(text);
    for (const name of ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_heap_bytes"])
      expect(families.get(name)!.samples[0]!.value).toBeGreaterThan(0);
    const { value: startedAt } = families.get("process_start_time_seconds")!.samples[0]!;
    // Not to the second: the clock may have been set since the process started.
    expect(Math.abs(startedAt - (Date.now() / 1_000 - process.uptime()))).toBeLessThan(3_600);
    const body = await server.request("/metrics", { method: "HEAD" });
    expect([body.status, body.text]).toEqual([200, ""]);
  });
});

describeServer("GET /metrics with a provider", { config: { auth: jwtAuth({ secret }) }, only: ["start"] }, (server) => {
  it("refuses GET /metrics without a token if there is a provider", async () => {
    expect((await server.get("/metrics")).status).toBe(401);
    const headers = { authorization: `Bearer ${await createToken({ sub: "prometheus" }, secret)}` };
    const { status, text } = await server.get("/metrics", { headers });
    expect(status).toBe(200);
    expect(valuesOf(parseExposition(text), "agentserve_requests_total")).toMatchObject({ "GET /metrics,401": 1 });
  });
});

it("opens GET /metrics by publicRoutes", async () => {
  const auth = jwtAuth({ secret, defaultPrivate: true, publicRoutes: ["GET /metrics", "GET /doc"] });
  const server = await startTestServer("in process", { config: { auth } });
  expect((await server.get("/metrics")).status).toBe(200);
});

it("replaces GET /metrics by a custom route, and keeps it with server.health: false", async () => {
  const configureApp: Config["configureApp"] = (app) => void app.get("/metrics", () => "own");
  const replaced = await startServer("in process", { config: { configureApp } });
  expect((await replaced.get("/metrics", { custom: true })).text).toBe("own");
  expect(replaced.logs).toContainEqual({
    level: "info",
    message: "configureApp replaces the built-in route GET /metrics",
    data: undefined,
  });
  await replaced.close();
  const server = await startTestServer("in process", { config: { server: { health: false } } });
  expect((await server.get("/metrics")).status).toBe(200);
  expect(server.logs).toEqual([]);
});

it("counts requests inside the host's middleware by their route with cors: false", async () => {
  const auth = jwtAuth({ secret, publicRoutes: ["GET /metrics"] });
  const { send, read } = serve({ auth, server: { cors: false } });
  await send("/workflows");
  await send("/workflows/x/execute", { method: "POST" });
  await send("/nowhere");
  const headers = { origin: "http://a.b", "access-control-request-method": "GET" };
  const preflight = await send("/workflows", { method: "OPTIONS", headers });
  expect(valuesOf(await read(), "agentserve_requests_total")).toEqual({
    "GET /workflows,200": 1,
    "POST /workflows/:id/execute,401": 1,
    "other,404": 1,
    [`other,${preflight.status}`]: 1,
  });
});

describe("executions of an earlier process", () => {
  it("does not count executions of an earlier process again, and shows a suspended one", async () => {
    const folder = createFolder("metrics");
    const backend = onFile(join(folder, "data.db"));
    const approve = defineWorkflow({ id: "approve" })
      .andThen({ id: "before", execute: () => 1 })
      .andThen({ id: "decide", execute: ({ resumeData, suspend }) => resumeData ?? suspend("ok?") });
    const options = { config: { workflows: [approve] }, backend };
    const first = await startServer("in process", options);
    const executionId = "e1";
    await first.post("/workflows/approve/execute", { input: {}, options: { executionId } });
    await first.close();

    const second = await startTestServer("in process", options);
    const read = async (): Promise<Map<string, Family>> => parseExposition((await second.get("/metrics")).text);
    const before = await read();
    expect(valuesOf(before, "agentserve_executions_total")).toEqual({});
    expect(valuesOf(before, "agentserve_executions_started_total")).toEqual({});
    expect(valuesOf(before, "agentserve_executions_suspended")).toEqual({ approve: 1 });
    await second.post(`/workflows/approve/executions/${executionId}/resume`, { resumeData: { ok: true } });
    const after = await read();
    expect(valuesOf(after, "agentserve_executions_total")).toEqual({ "approve,running": 1, "approve,completed": 1 });
    expect(valuesOf(after, "agentserve_step_attempts_total")).toEqual({ "approve,success": 1 });
    expect(valuesOf(after, "agentserve_executions_suspended")).toEqual({});
  });
});

describe("agentserve_log_records_dropped_total", () => {
  const logs: Config["configureApp"] = (app) =>
    void app.get("/logs/:count", ({ context }) => {
      for (let n = 0; n < Number(context.params!["count"]); n++) context["logger"]!.warn(`record ${n}`);
      return "";
    });

  it("counts the records that the host's logger fails to take in agentserve_log_records_dropped_total", async () => {
    const throwing = {
      ...silent,
      warn: () => {
        throw new Error("no");
      },
    };
    const rejecting = { ...silent, warn: () => Promise.reject(new Error("no")) };
    for (const logger of [throwing, rejecting]) {
      const { send, read } = serve({ logger, configureApp: logs });
      await send("/logs/7");
      await eventually(async () =>
        expect(valuesOf(await read(), "agentserve_log_records_dropped_total")).toEqual({ "": 7 }),
      );
    }
  });

  it("counts the records that a reader of /ws/logs did not get in agentserve_log_records_dropped_total", async () => {
    const config: Config = withBounds({ logRecords: 10 }, { configureApp: logs });
    const server = await startTestServer("start", { config });
    const socket = await server.socket("/ws/logs");
    await socket.next(); // the snapshot
    await server.get("/logs/30", { custom: true });
    expect(await socket.next()).toMatchObject({ type: "DROPPED", data: { count: 20 } });
    const families = parseExposition((await server.get("/metrics")).text);
    expect(valuesOf(families, "agentserve_log_records_dropped_total")).toEqual({ "": 20 });
    socket.close();
  });
});

describe("agentserve_model_calls_total", () => {
  it("counts a model call as aborted if its client leaves, with or without a stream", async () => {
    const model = scriptedModel(
      [1, 2].map(() => async ({ abortSignal }) => {
        await once(abortSignal!, "abort");
        throw abortSignal!.reason;
      }),
    );
    const server = await startTestServer("start", {
      config: { agents: [defineAgent({ id: "slow", instructions: "", model })] },
    });
    for (const [index, path] of ["text", "stream"].entries()) {
      const leave = new AbortController();
      const sent = server.send(`/agents/slow/${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"input":"x"}',
        signal: leave.signal,
      });
      await eventually(() => expect(model.calls).toHaveLength(index + 1));
      leave.abort();
      await expect(sent).rejects.toThrow();
      await eventually(async () => {
        const families = parseExposition((await server.get("/metrics")).text);
        expect(valuesOf(families, "agentserve_model_calls_total")).toEqual({ "slow,aborted": index + 1 });
      });
    }
  });
});
