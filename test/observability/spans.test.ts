import * as v from "valibot";
import { expect, it } from "vitest";
import {
  andAgent,
  andThen,
  andWorkflow,
  createToken,
  defineAgent,
  defineTool,
  defineWorkflow,
  jwtAuth,
  type Config,
} from "agentserve";
import { echoModel } from "agentserve/models";
import { createGates } from "../harness/gates.ts";
import { describeServer, startTestServer, type TestServer, type TestSocket } from "../harness/server.ts";

interface SpanEvent {
  type: "span:start" | "span:end";
  span: Record<string, any> & { attributes: Record<string, unknown> };
}
interface Node {
  name: string;
  kind: string;
  status: string;
  children: Node[];
}

const weather = defineTool({
  description: "Tells the weather",
  inputSchema: v.object({ city: v.optional(v.string()) }),
  execute: (_, { context }) => {
    context.logger.info("Looking up");
    return { sky: "blue" };
  },
});
const helper = defineAgent({ id: "helper", instructions: "", model: echoModel(), tools: { weather } });
const approve = defineWorkflow({ id: "approve" }).andThen({
  id: "decide",
  execute: ({ resumeData, suspend }) => (resumeData as { ok: boolean } | undefined) ?? suspend("ok?"),
});
const gates = createGates();
const config: Config = {
  agents: [helper],
  workflows: [
    defineWorkflow({ id: "trip" })
      .andAll({
        id: "both",
        steps: [
          andAgent({ id: "ask", agent: helper, prompt: "What is the weather in Rome?" }),
          andWorkflow({ id: "sub", workflow: approve }),
        ],
      })
      .andThen({ id: "done", execute: () => "done" }),
    defineWorkflow({ id: "race" })
      .andRace({
        id: "first",
        steps: [
          andThen({ id: "fast", execute: () => "fast" }),
          andThen({ id: "slow", execute: () => gates.pass("never") }),
        ],
      })
      .andThen({ id: "after", execute: () => "after" }),
    defineWorkflow({ id: "broken" }).andThen({
      id: "fails",
      retry: { attempts: 2 },
      execute: () => {
        throw new Error("for a reason");
      },
    }),
    defineWorkflow({ id: "twice" })
      .andThen({ id: "first", execute: ({ resumeData, suspend }) => resumeData ?? suspend() })
      .andThen({ id: "second", execute: ({ resumeData, suspend }) => resumeData ?? suspend() }),
    defineWorkflow({ id: "other" }).andThen({ id: "only", execute: () => 1 }),
  ],
  configureApp: (app) => void app.get("/mine", () => "mine"),
};

/** Reads until a span of this name has ended. */
async function untilEnd(socket: TestSocket, ...names: string[]): Promise<SpanEvent[]> {
  const events: SpanEvent[] = [];
  const waiting = [...names];
  while (waiting.length > 0) {
    const { type, data } = await socket.next();
    if (type !== "OBSERVABILITY_EVENT") continue;
    events.push(data);
    const at = waiting.indexOf(data.span.name);
    if (data.type === "span:end" && at >= 0) waiting.splice(at, 1);
  }
  return events;
}

/** The spans that have ended, under those that they stand in. */
function toTree(events: SpanEvent[]): Node[] {
  const ended = events.filter(({ type }) => type === "span:end").map(({ span }) => span);
  const started = events.filter(({ type }) => type === "span:start").map(({ span }) => span["spanId"]);
  const under = (parent: string | undefined): Node[] =>
    ended
      .filter(({ parentSpanId }) => parentSpanId === parent)
      .toSorted((a, b) => started.indexOf(a["spanId"]) - started.indexOf(b["spanId"]))
      .map(({ spanId, name, kind, status }) => ({ name, kind, status: status.code, children: under(spanId) }))
      // Steps that run at the same time start in any order.
      .toSorted((a, b) => (isParallel(a) && isParallel(b) ? a.name.localeCompare(b.name) : 0));
  const roots = ended.filter(({ parentSpanId }) => !ended.some(({ spanId }) => spanId === parentSpanId));
  return [...new Set(roots.map(({ parentSpanId }) => parentSpanId))].flatMap(under);
}
const isParallel = ({ name }: Node): boolean => ["ask", "sub", "fast", "slow"].includes(name.replace("step ", ""));
const node = (name: string, children: Node[] = [], kind = "internal", status = "ok"): Node => ({
  name,
  kind,
  status,
  children,
});
const run = (server: TestServer, id: string, executionId: string, headers = {}) =>
  server.post(`/workflows/${id}/execute`, { input: {}, options: { executionId } }, { headers });

describeServer("/ws/observability", { config, only: ["start"] }, (server) => {
  it("shows request, execution, steps, agent, model and tool as one tree, over suspension and resume", async () => {
    const socket = await server.socket("/ws/observability?entityType=workflow&entityId=trip");
    const other = run(server, "other", "beside-1");
    expect((await run(server, "trip", "trip-1")).body.data.status).toBe("suspended");
    await other;
    const begun = await untilEnd(socket, "workflow trip", "POST /workflows/:id/execute");
    const model = node("chat echo", [], "client");
    expect(toTree(begun)).toEqual([
      node(
        "POST /workflows/:id/execute",
        [
          node("workflow trip", [
            node("step both", [
              node("step ask", [node("invoke_agent helper", [model, node("execute_tool weather"), model])]),
              node("step sub", [node("step sub/decide")]),
            ]),
          ]),
        ],
        "server",
      ),
    ]);
    const resumed = server.post("/workflows/trip/executions/trip-1/resume", { resumeData: { ok: true } });
    expect((await resumed).body.data.status).toBe("completed");
    const ended = await untilEnd(socket, "workflow trip", "POST /workflows/:id/executions/:executionId/resume");
    const execution = ended.find(({ span }) => span["name"] === "workflow trip")!.span;
    const request = ended.find(({ span }) => span["name"].endsWith("/resume"))!.span;
    expect(execution["traceId"]).toBe(begun[0]!.span["traceId"]); // one trace for one execution
    expect(execution["parentSpanId"]).toBe(begun[0]!.span["spanId"]);
    expect(execution["links"]).toEqual([{ traceId: request["traceId"], spanId: request["spanId"] }]);
    expect(request["traceId"]).not.toBe(execution["traceId"]);
    const inside = ended.filter(({ span }) => span["traceId"] === execution["traceId"]);
    expect(toTree(inside)).toEqual([
      node("workflow trip", [node("step both", [node("step sub", [node("step sub/decide")])]), node("step done")]),
    ]);
    expect([...begun, ...ended].filter(({ span }) => JSON.stringify(span).includes("other"))).toEqual([]);
    socket.close();
  });

  it("gives spans the attributes of OpenTelemetry, with token counts", async () => {
    const socket = await server.socket("/ws/observability?entityType=agent");
    await run(server, "trip", `with-an-agent-inside-${server.target}`); // is about a workflow all the same
    const answer = await server.post("/agents/helper/text", {
      input: "What is the weather?",
      options: { conversationId: "c" },
    });
    const events = await untilEnd(socket, "POST /agents/:id/text");
    const of = (name: string) =>
      events.findLast(({ type, span }) => type === "span:end" && span["name"] === name)!.span;
    expect(events.filter(({ span }) => /workflow|step/.test(span["name"]))).toEqual([]);
    const usage = { "gen_ai.usage.input_tokens": expect.any(Number), "gen_ai.usage.output_tokens": expect.any(Number) };
    const about = { "entity.type": "agent", "entity.id": "helper" };
    expect(of("POST /agents/:id/text").attributes).toEqual({
      ...about,
      "http.request.method": "POST",
      "http.route": "/agents/:id/text",
      "http.response.status_code": 200,
      "agentserve.request.id": answer.headers.get("x-request-id"),
    });
    expect(of("invoke_agent helper").attributes).toMatchObject({
      ...about,
      ...usage,
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.conversation.id": "c",
    });
    expect(of("invoke_agent helper").attributes["gen_ai.usage.input_tokens"]).toBe(answer.body.data.usage.inputTokens);
    expect(of("chat echo").attributes).toMatchObject({
      ...usage,
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": "echo",
    });
    expect(of("execute_tool weather").attributes).toMatchObject({
      "gen_ai.tool.name": "weather",
      "gen_ai.tool.call.id": expect.any(String),
    });
    expect(of("chat echo")).toMatchObject({
      startTime: expect.stringMatching(/Z$/),
      endTime: expect.stringMatching(/Z$/),
      events: [],
    });
    socket.close();
  });

  it.each(["stream", "chat"])("sends the spans of an agent call by %s over /ws/observability", async (endpoint) => {
    const socket = await server.socket("/ws/observability?entityId=helper");
    const message = { role: "user", parts: [{ type: "text", text: "hello" }] };
    await server.post(`/agents/helper/${endpoint}`, { input: [message] });
    const tree = toTree(await untilEnd(socket, "invoke_agent helper", `POST /agents/:id/${endpoint}`));
    const agent = node("invoke_agent helper", [node("chat echo", [], "client")]);
    expect(tree).toEqual([node(`POST /agents/:id/${endpoint}`, [agent], "server")]);
    socket.close();
  });

  it("ends the spans of steps that lost a race or failed", async () => {
    const socket = await server.socket("/ws/observability");
    await run(server, "race", "race-1");
    const race = await untilEnd(socket, "workflow race", "POST /workflows/:id/execute");
    const steps = [node("step fast"), node("step slow")];
    expect(toTree(race)[0]!.children).toEqual([node("workflow race", [node("step first", steps), node("step after")])]);
    const order = race.map(({ type, span }) => `${type} ${span["name"]}`);
    expect(order.indexOf("span:end step slow")).toBeLessThan(order.indexOf("span:start step after"));
    await run(server, "broken", "broken-1");
    const broken = await untilEnd(socket, "workflow broken", "POST /workflows/:id/execute");
    const failed = broken.findLast(({ span }) => span["name"] === "step fails")!.span;
    expect(failed["status"]).toEqual({ code: "error", message: "for a reason" });
    expect(failed.attributes).toMatchObject({ "agentserve.step.attempt": 2 });
    expect(toTree(broken)).toMatchObject([
      { status: "error", children: [{ name: "workflow broken", status: "error" }] },
    ]);
    socket.close();
  });

  it("continues the caller's trace in spans and log records", async () => {
    const socket = await server.socket("/ws/observability?entityId=trip");
    const traceId = "0af7651916cd43dd8448eb211c80319c";
    const traceparent = `00-${traceId}-b7ad6b7169203331-01`;
    await run(server, "trip", "traced-1", { traceparent });
    const seen: { type: string; data: any }[] = [];
    while (
      !seen.some(
        ({ type, data }) => type === "OBSERVABILITY_EVENT" && data.type === "span:end" && data.span.kind === "server",
      )
    )
      seen.push(await socket.next());
    const spans = seen.filter(({ type }) => type === "OBSERVABILITY_EVENT").map(({ data }) => data.span);
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
    expect(spans[0]).toMatchObject({ kind: "server", parentSpanId: "b7ad6b7169203331" });
    const log = seen.find(({ type }) => type === "OBSERVABILITY_LOG")!.data;
    const tool = spans.find((span) => span.name.startsWith("execute_tool"));
    expect(log).toMatchObject({ message: "Looking up", traceId, executionId: "traced-1", agentId: "helper" });
    expect(spans.map((span) => span.spanId)).toContain(log.spanId);
    expect(tool).toBeDefined();
    socket.close();
  });

  it("gives an execution one trace, though nobody listened at its start", async () => {
    await run(server, "twice", "twice-1");
    const socket = await server.socket("/ws/observability");
    const traces: string[] = [];
    for (const n of [1, 2]) {
      await server.post("/workflows/twice/executions/twice-1/resume", { resumeData: n });
      const events = await untilEnd(socket, "workflow twice");
      traces.push(events.find(({ span }) => span["name"] === "workflow twice")!.span["traceId"]);
    }
    expect(traces).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), traces[0]]);
    socket.close();
  });

  it("refuses an unknown filter of /ws/observability with the close code 1008", async () => {
    const socket = await server.socket("/ws/observability?entityType=planet");
    expect(await socket.next()).toMatchObject({ type: "ERROR", success: false });
    expect(await socket.closed).toBe(1008);
  });
});

it("makes no span and no trace id while nobody listens", async () => {
  const server = await startTestServer("in process", { config });
  await run(server, "trip", "quiet-1");
  const { data } = (await server.get("/api/logs")).body;
  expect(data.some((record: object) => "traceId" in record)).toBe(false);
});

it("shows anonymous readers only the entity and the token counts of spans if there is a provider", async () => {
  const secret = "a secret of at least thirty-two bytes";
  for (const ownership of [false, true]) {
    const auth = jwtAuth({ secret, ownership });
    const server = await startTestServer("start", { config: { ...config, auth } });
    const token = await createToken({ sub: "ada" }, secret);
    const other = await createToken({ sub: "bob" }, secret);
    const sockets = await Promise.all(
      ["", `?token=${token}`, `?token=${other}`].map((query) => server.socket(`/ws/observability${query}`)),
    );
    await run(server, "trip", "secret-1", { authorization: `Bearer ${token}` });
    const [anonymous, ada, bob] = await Promise.all(
      sockets.map((socket) => untilEnd(socket, "workflow trip", "POST /workflows/:id/execute")),
    );
    expect(JSON.stringify(anonymous)).not.toMatch(/secret-1|"ada"|http\.|agentserve\.|gen_ai\.(?!usage)/);
    const agent = anonymous!.findLast(({ span }) => span["name"] === "invoke_agent helper")!.span;
    expect(Object.keys(agent.attributes)).toEqual([
      "entity.type",
      "entity.id",
      "gen_ai.usage.input_tokens",
      "gen_ai.usage.output_tokens",
    ]);
    expect(JSON.stringify(ada)).toContain("secret-1");
    expect(JSON.stringify(bob).includes("secret-1")).toBe(!ownership);
    for (const socket of sockets) socket.close();
  }
});

it.each([
  ["sampled", "01"],
  ["unsampled", "00"],
])("sends a trace that its caller leaves %s on to the model's provider", async (_, flag) => {
  const seen: (string | undefined)[] = [];
  const model = echoModel();
  const listening: typeof model = {
    ...model,
    doGenerate(options) {
      seen.push(options.headers?.["traceparent"]);
      return model.doGenerate(options);
    },
    doStream(options) {
      seen.push(options.headers?.["traceparent"]);
      return model.doStream(options);
    },
  };
  const agent = defineAgent({ id: "far", instructions: "", model: listening });
  const workflow = defineWorkflow({ id: "asks" }).andAgent({ id: "ask", agent, prompt: "hi" });
  const server = await startTestServer("start", { config: { agents: [agent], workflows: [workflow] } });
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-${flag}` };
  const own = expect.stringMatching(new RegExp(`^00-${traceId}-(?!b7ad)[0-9a-f]{16}-${flag}$`));
  await server.post("/agents/far/text", { input: "hi" }, { headers });
  const socket = await server.socket("/ws/observability");
  await server.post("/agents/far/text", { input: "hi" }, { headers });
  await server.post("/workflows/asks/execute", { input: {} }, { headers });
  expect(seen).toEqual([headers.traceparent, own, own]);
  socket.close();
});

it("ends each span, hides secrets in it, and is not stopped by what is thrown", async () => {
  const odd = (id: string, execute: () => unknown) => defineWorkflow({ id }).andThen({ id: "s", execute });
  const echo = echoModel();
  const breaking = Object.create(echo, {
    doStream: {
      async value() {
        const parts = [
          { type: "stream-start", warnings: [] },
          { type: "text-start", id: "1" },
          { type: "text-delta", id: "1", delta: "x" },
        ];
        const pull = (controller: ReadableStreamDefaultController) => {
          const part = parts.shift();
          if (part) controller.enqueue(part);
          else controller.error(new Error("the connection broke"));
        };
        return { stream: new ReadableStream({ pull }) };
      },
    },
  }) as typeof echo;
  const gone = defineAgent({ id: "gone", instructions: "", model: breaking });
  const workflows = [
    odd("leaks", () => {
      throw new Error("401 for password=hunter2hunter2");
    }),
    odd("bare", () => {
      throw Object.create(null);
    }),
  ];
  const server = await startTestServer("start", { config: { workflows, agents: [gone] } });
  const socket = await server.socket("/ws/observability");
  for (const id of ["leaks", "bare"]) expect((await run(server, id, `${id}-1`)).status).toBe(500);
  const events = await untilEnd(
    socket,
    "workflow leaks",
    "workflow bare",
    ...Array(2).fill("POST /workflows/:id/execute"),
  );
  expect(JSON.stringify(events)).not.toContain("hunter2");
  await server.post("/agents/gone/stream", { input: "hi" });
  const broken = await untilEnd(socket, "POST /agents/:id/stream", "invoke_agent gone");
  expect(broken.map(({ span }) => span["name"])).toContain("chat echo");
  for (const all of [events, broken]) {
    const ended = all.filter(({ type }) => type === "span:end").map(({ span }) => span["spanId"]);
    const begun = all.filter(({ type }) => type === "span:start").map(({ span }) => span["spanId"]);
    expect(ended.toSorted()).toEqual(begun.toSorted());
  }
  socket.close();
});
