import { join } from "node:path";
import { andThen, createServer, defineAgent, defineWorkflow, embedded, jwtAuth, type Config } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { runInScope } from "../../src/core/scope.ts";
import { createLogs } from "../../src/observability/logs.ts";
import { createFolder } from "../harness/folders.ts";
import { describeServer, startTestServer, type LogRecord } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

const approval = defineWorkflow({ id: "approval", input: v.object({ act: v.string() }) })
  .andThen({
    id: "decide",
    async execute({ input: { act }, suspend, resumeData }) {
      if (act === "wait" && !resumeData) await suspend("Approve 500?");
      return act;
    },
  })
  .andThen({
    id: "pay",
    execute({ data }) {
      if (data === "fail") throw new Error("Card refused");
    },
  });
/** Fails without the failure of a step. */
const large = defineWorkflow({ id: "large" }).andThen({ id: "fill", execute: () => "x".repeat(1_000) });
const race = defineWorkflow({ id: "race" }).andRace({
  id: "both",
  steps: ["one", "two"].map((id) =>
    andThen({
      id,
      execute() {
        throw new Error(`${id} is out`);
      },
    }),
  ),
});
const asking = defineWorkflow({ id: "asking" }).andAgent({
  id: "ask",
  agent: defineAgent({ id: "helper", instructions: "", model: scriptedModel([new Error("overloaded")]) }),
  prompt: "hi",
});

const config: Config = {
  workflows: [approval, large, race],
  server: { limits: { executionBytes: 200 } },
  configureApp: (app) => void app.get("/orders/:order", () => "ok"),
};
const last = (records: readonly LogRecord[]): LogRecord | undefined => records.at(-1);

describeServer("a request", { config }, (server) => {
  const level = server.target === "dev" ? "info" : "debug";
  const toData = (data: object) => ({ ms: expect.any(Number), requestId: expect.any(String), ...data });
  const logged = (data: object) => eventually(() => expect(last(server.activity)).toEqual(toRecord(data)));
  const toRecord = (data: object, at = level) => ({ level: at, message: "Request completed", data: toData(data) });

  it("logs a request as one record with the pattern of its route, never with its path or query", async () => {
    await server.get("/workflows/approval?token=secret");
    await logged({ method: "GET", route: "/workflows/:id", status: 200 });
    await server.get("/orders/ada-7?token=secret", { custom: true });
    await logged({ method: "GET", route: "/orders/:order", status: 200 });
    await server.send("/nothing/of/the/sort", {});
    await logged({ method: "GET", route: undefined, status: 404 });
    await server.send("/workflows/approval", { method: "DELETE" });
    await logged({ method: "DELETE", route: undefined, status: 405 });
    await server.send("/workflows/nope/execute", { method: "POST", body: "{" });
    await logged({ method: "POST", route: "/workflows/:id/execute", status: expect.any(Number) });
    expect(JSON.stringify(server.activity)).not.toMatch(/secret|ada-7|of\/the/);
  });

  it("logs a request with the id of its answer", async () => {
    const { headers } = await server.get("/workflows");
    await logged({ method: "GET", route: "/workflows", status: 200, requestId: headers.get("x-request-id") });
  });

  it("logs a stream as one record, when its headers are sent", async () => {
    const { events } = await server.post("/workflows/approval/stream", {
      input: { act: "go" },
      options: { executionId: "s-1" },
    });
    expect(events.length).toBeGreaterThan(3);
    const of = server.activity.filter(({ data }) => data?.["route"] === "/workflows/:id/stream");
    expect(of).toEqual([toRecord({ method: "POST", route: "/workflows/:id/stream", status: 200, stream: true })]);
  });

  it.each([
    ["a probe", "/health", {}],
    ["a file of Swagger UI", "/ui?file=swagger-ui.css", {}],
    ["the icon that a browser asks for", "/favicon.ico", {}],
    [
      "a preflight",
      "/workflows",
      { method: "OPTIONS", headers: { origin: "https://a.example", "access-control-request-method": "POST" } },
    ],
  ])("logs %s at debug", async (_, path, init) => {
    const before = server.activity.length;
    await (await server.send(path, init)).text();
    await eventually(() => expect(server.activity.length).toBe(before + 1));
    expect(last(server.activity)).toMatchObject({ level: "debug", message: "Request completed" });
  });

  it("keeps request records in the log of dev, and not in that of start", async () => {
    await server.get("/health");
    await server.get("/workflows");
    const { data } = (await server.get("/api/logs")).body as { data: { message: string; data: { route: string } }[] };
    const routes = data.filter(({ message }) => message === "Request completed").map((record) => record.data.route);
    expect(routes.slice(-1)).toEqual(server.target === "dev" ? ["/workflows"] : []);
    expect(routes).not.toContain("/health");
  });
});

describeServer("a WebSocket", { config, only: ["dev", "start"] }, (server) => {
  it("logs a WebSocket as one record, whether it is opened or refused", async () => {
    const socket = await server.socket("/ws/logs");
    const toData = (data: object) => expect.objectContaining({ data: expect.objectContaining(data) });
    await eventually(() => expect(server.activity).toContainEqual(toData({ route: "/ws/logs", status: 101 })));
    socket.close();
    await expect(server.socket("/orders")).rejects.toThrow("refused");
    await eventually(() => expect(server.activity).toContainEqual(toData({ method: "GET", status: 404 })));
  });
});

it("logs a refused request with its route and no user", async () => {
  const auth = jwtAuth({ secret: "a secret of at least thirty-two bytes" });
  const server = await startTestServer("in process", { config: { ...config, auth } });
  await server.send("/workflows/approval/execute", { method: "POST" });
  const data = { method: "POST", route: "/workflows/:id/execute", status: 401, ms: expect.any(Number) };
  expect(last(server.activity)?.data).toEqual({ ...data, requestId: expect.any(String) });
});

describeServer("an execution", { config }, (server) => {
  const level = server.target === "dev" ? "info" : "debug";
  const execute = async (workflow: string, executionId: string, input: object, status = 200) => {
    const answer = await server.post(`/workflows/${workflow}/execute`, { input, options: { executionId } });
    expect(answer.status).toBe(status);
  };
  const of = (executionId: string) =>
    server.activity
      .filter(({ data }) => data?.["executionId"] === executionId)
      .map(({ level: own, message, data }) => {
        const { ms, workflowId: _, executionId: __, ...rest } = data!;
        expect(ms).toEqual(expect.any(Number));
        return [own, message, rest];
      });

  it("logs one record when an execution is suspended, and one when it ends", async () => {
    await execute("approval", "e-1", { act: "wait" });
    const suspended = [level, "Execution suspended", { stepId: "decide", reason: "Approve 500?", kind: "person" }];
    await eventually(() => expect(of("e-1")).toEqual([suspended]));
    await server.post("/workflows/approval/executions/e-1/resume", { resumeData: { ok: true } });
    await eventually(() => expect(of("e-1")).toEqual([suspended, [level, "Execution completed", {}]]));
  });

  it("logs one record when an execution is cancelled, and no error of its step", async () => {
    await execute("approval", "e-2", { act: "wait" });
    await server.post("/workflows/approval/executions/e-2/cancel", { reason: "No budget" });
    await eventually(() =>
      expect(of("e-2").slice(1)).toEqual([[level, "Execution cancelled", { reason: "No budget" }]]),
    );
  });

  it("logs a failed execution at debug, because its step has logged the error", async () => {
    await execute("approval", "e-3", { act: "fail" }, 500);
    await eventually(() =>
      expect(of("e-3")).toEqual([["debug", "Execution failed", { stepId: "pay", error: "Card refused" }]]),
    );
    const errors = server.logs.filter(({ data }) => data?.["executionId"] === "e-3");
    expect(errors).toMatchObject([{ level: "error", message: "Step failed", data: { stepId: "pay" } }]);
  });

  it("logs an execution that fails without an error of a step at the usual level", async () => {
    await execute("large", "e-4", {}, 500);
    const error = expect.stringContaining("limits.executionBytes");
    await eventually(() => expect(of("e-4")).toEqual([[level, "Execution failed", { stepId: "fill", error }]]));
    await execute("race", "e-5", {}, 500);
    await eventually(() =>
      expect(of("e-5")).toMatchObject([
        [level, "Execution failed", { error: expect.stringMatching(/^(one|two) is out$/) }],
      ]),
    );
  });
});

it("does not log an execution again that a restart continues", async () => {
  const folder = createFolder("activity");
  const records: [string, Record<string, unknown>][] = [];
  const note = (message: string, record: Record<string, unknown>) => void records.push([message, record]);
  const logger = { debug: note, info: note, warn: note, error: note };
  const open = () => createServer({ ...config, logger, backend: embedded({ path: join(folder, "data.db") }) });
  const post = (server: ReturnType<typeof open>, path: string, body: object) => {
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    return server.fetch(new Request(`http://localhost/workflows/approval/${path}`, init));
  };
  const first = open();
  await post(first, "execute", { input: { act: "wait" }, options: { executionId: "e" } });
  await first.close();
  const second = open();
  await post(second, "executions/e/resume", { resumeData: {} });
  await second.close();
  expect(records.map(([message]) => message).filter((message) => message.startsWith("Execution"))).toEqual([
    "Execution suspended",
    "Execution completed",
  ]);
});

describe("the error of an agent", () => {
  it("logs the error of an agent once, by the step that asked it", async () => {
    const server = await startTestServer("dev", { config: { workflows: [asking] } });
    await server.post("/workflows/asking/execute", { input: {}, options: { executionId: "e" } });
    const shown = server.logs.filter(({ level }) => level !== "debug");
    expect(shown).toMatchObject([
      { level: "error", message: "Step failed", data: { stepId: "ask", error: { message: "Model call failed" } } },
    ]);
    const { data } = (await server.get("/api/logs?level=error")).body;
    expect(data[0].error).toMatch(/Model call failed[^]*caused by: .*overloaded/);
    expect((await server.get("/api/logs?agentId=helper")).body.data).toMatchObject([
      { level: "debug", message: "Model call failed", stepId: "ask" },
    ]);
  });
});

describe("records below info", () => {
  const limits = { logRecords: 10, logBytes: 1_000_000 };

  it("makes no records below info while nobody takes them", () => {
    const seen: string[] = [];
    const { activity, ring } = createLogs({ ...limits, output: (_, message) => void seen.push(message) });
    const data = {
      get ms(): number {
        throw new Error("it was read");
      },
    };
    expect(activity.isOn()).toBe(false);
    activity.log("Request completed", data);
    expect([seen, ring.next]).toEqual([[], 1]);
  });

  it("passes records below info on, and pushes no other record out of the log for them", () => {
    const seen: string[] = [];
    const output = (_: unknown, message: string) => void seen.push(message);
    const { activity, logger, ring } = createLogs({ ...limits, output, takesDebug: () => true });
    logger.info("First");
    for (let n = 0; n < 100; n++) runInScope({ requestId: String(n) }, () => activity.log("Request completed", { n }));
    expect(seen).toHaveLength(101);
    expect(ring.newest(() => true, 100).map(({ text }) => JSON.parse(text).message)).toEqual(["First"]);
  });

  it("keeps activity records at info, except quiet ones", () => {
    const { activity, ring } = createLogs({ ...limits, output: () => {}, activityLevel: "info" });
    activity.log("Request completed", {});
    activity.log("Request completed", {}, { quiet: true });
    expect(ring.next).toBe(2);
  });
});
