import { readFileSync } from "node:fs";
import { andAgent, andThen, defineAgent, defineWorkflow, type Config } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import { describe, expect, it } from "vitest";
import { chosenBackend } from "../../harness/backends.ts";
import { createGates } from "../../harness/gates.ts";
import { startServer, startTestServer, type TestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { parseExposition, valuesOf, type Family } from "./exposition.ts";

const gates = createGates();
const helper = defineAgent({ id: "helper", instructions: "", model: echoModel() });
const failing = defineAgent({
  id: "failing",
  instructions: "",
  maxRetries: 0,
  model: scriptedModel([new Error("no")]),
});
/** It is used in a step, and the config does not list it. */
const unlisted = defineAgent({ id: "unlisted", instructions: "", model: echoModel() });
const fails = (): never => {
  throw new Error("no");
};

const config: Config = {
  agents: [helper, failing],
  workflows: [
    defineWorkflow({ id: "order" }).andThen({ id: "only", execute: () => 1 }),
    defineWorkflow({ id: "approve" }).andThen({
      id: "decide",
      execute: ({ resumeData, suspend }) => resumeData ?? suspend("ok?"),
    }),
    defineWorkflow({ id: "broken" }).andThen({ id: "fails", retry: { attempts: 2, delay: 1 }, execute: fails }),
    defineWorkflow({ id: "held" }).andThen({ id: "waits", execute: () => gates.pass("held") }),
    defineWorkflow({ id: "race" }).andRace({
      id: "both",
      steps: [
        andThen({ id: "wins", execute: () => 1 }),
        andThen({ id: "loses", execute: ({ signal }) => new Promise((_, no) => signal.addEventListener("abort", no)) }),
      ],
    }),
    defineWorkflow({ id: "asks" })
      .andAgent({ id: "helper", agent: helper, prompt: "one two three" })
      .andAll({ id: "all", steps: [andAgent({ id: "unlisted", agent: unlisted, prompt: "four five" })] }),
  ],
  configureApp(app) {
    app.get("/mine/:id", () => "mine");
    app.get("/teapot", () => new Response("short and stout", { status: 418 }));
  },
};

/** Sends requests, and notes which number each of them must add to. */
function createLoad(server: TestServer) {
  const expected: Record<string, number> = { "GET /doc,200": 1 }; // by `startServer`
  async function call(label: string, path: string, init: RequestInit = {}): Promise<any> {
    const response = await server.send(path, init);
    const text = await response.text();
    const key = `${label},${response.status}`;
    expected[key] = (expected[key] ?? 0) + 1;
    return { status: response.status, text, body: text.startsWith("{") ? JSON.parse(text) : undefined };
  }
  const post = (label: string, path: string, body: unknown = {}): Promise<any> => {
    const headers = { "content-type": "application/json" };
    return call(`POST ${label}`, path, { method: "POST", headers, body: JSON.stringify(body) });
  };
  const execute = (id: string, executionId?: string): Promise<any> =>
    post("/workflows/:id/execute", `/workflows/${id}/execute`, { input: {}, options: { executionId } });
  const read = async (): Promise<Map<string, Family>> => parseExposition((await call("GET /metrics", "/metrics")).text);
  return { expected, call, post, execute, read };
}

const seriesOf = (families: ReadonlyMap<string, Family>): string[] =>
  [...families.values()].flatMap(({ samples }) =>
    samples.map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`),
  );

const hostileIds = [
  "other",
  "__proto__",
  "constructor",
  'a"b',
  "a\\b",
  "a\nb",
  "a{b}",
  "😀",
  "\u202e",
  "x".repeat(300),
];

describe("GET /metrics", () => {
  it("counts a scripted load in GET /metrics, and adds no series for hostile requests", async () => {
    const server = await startTestServer("start", { config });
    const { expected, call, post, execute, read } = createLoad(server);

    for (let n = 0; n < 5; n++) await execute("order");
    await execute("order", "same");
    await execute("order", "same"); // 409: it exists, and is not counted again
    await execute("approve", "a1");
    await execute("approve", "a2");
    const path = "/workflows/:id/executions/:executionId";
    await post(`${path}/resume`, "/workflows/approve/executions/a1/resume", { resumeData: { ok: true } });
    await execute("broken");
    await execute("race");
    await execute("asks");
    const held = execute("held", "h1");
    await gates.reached("held");

    const running = await read();
    expect(valuesOf(running, "agentserve_executions_running")).toEqual({ "": 1 });
    expect(valuesOf(running, "agentserve_executions_queued")).toEqual({});
    const stopReading = new AbortController();
    const stream = await server.send("/workflows/held/executions/h1/stream", { signal: stopReading.signal });
    expected[`GET ${path}/stream,${stream.status}`] = 1;
    const sockets = [await server.socket("/ws"), await server.socket("/ws/logs")];
    const open = await read();
    expect(valuesOf(open, "agentserve_streams_open")).toEqual({ "": 1 });
    expect(valuesOf(open, "agentserve_sockets_open")).toEqual({ "": 2 });
    stopReading.abort();
    for (const socket of sockets) socket.close();
    await eventually(async () => {
      const closed = await read();
      expect(valuesOf(closed, "agentserve_streams_open")).toEqual({});
      expect(valuesOf(closed, "agentserve_sockets_open")).toEqual({});
    });
    await post(`${path}/cancel`, "/workflows/held/executions/h1/cancel");
    await held;

    const answer = await post("/agents/:id/text", "/agents/helper/text", { input: "six seven" });
    await post("/agents/:id/text", "/agents/failing/text", { input: "x" });
    await call("GET /mine/:id", "/mine/7");
    await call("GET /teapot", "/teapot");
    await call("GET /workflows", "/workflows", { method: "HEAD" });

    const callHostile = async (salt: string): Promise<void> => {
      for (const id of hostileIds.map((one) => encodeURIComponent(one + salt))) {
        await post("/workflows/:id/execute", `/workflows/${id}/execute`, { input: {}, options: { executionId: id } });
        await call("GET /agents/:id", `/agents/${id}`);
        await post("/agents/:id/text", `/agents/${id}/text`, { input: id, options: { userId: id } });
        await call("other", `/${id}`);
        await call("GET /mine/:id", `/mine/${id}`);
        await call("other", "/workflows", { method: "DELETE", headers: { "x-forwarded-for": id } });
      }
    };
    await callHostile("");
    const before = await read();
    for (let n = 0; n < 10; n++) await callHostile(`-${n}`);
    const after = await read();
    // The event loop has a delay once some time has passed since the first reading.
    const isLater = (series: string): boolean => !series.startsWith("agentserve_event_loop");
    expect(seriesOf(after).filter(isLater)).toEqual(seriesOf(before).filter(isLater));

    const own = expected["GET /metrics,200"]!;
    expect(valuesOf(after, "agentserve_requests_total")).toEqual({ ...expected, "GET /metrics,200": own - 1 });
    const { samples } = after.get("agentserve_request_duration_seconds")!;
    const answered = samples.filter(({ name }) => name.endsWith("_count")).map(({ value }) => value);
    expect(sum(answered)).toBe(sum(Object.values(expected)) - 1);

    // The replica that drives an execution hears of a cancel a moment after its answer.
    const last = await eventually(async () => {
      const families = await read();
      expect(valuesOf(families, "agentserve_executions_total")["held,cancelled"]).toBe(1);
      expect(valuesOf(families, "agentserve_executions_running")).toEqual({});
      return families;
    });
    expect(valuesOf(last, "agentserve_executions_started_total")).toEqual({
      order: 6,
      approve: 2,
      broken: 1,
      held: 1,
      race: 1,
      asks: 1,
    });
    expect(valuesOf(last, "agentserve_executions_total")).toEqual({
      "order,running": 6,
      "order,completed": 6,
      "approve,running": 3,
      "approve,suspended": 2,
      "approve,completed": 1,
      "broken,running": 1,
      "broken,error": 1,
      "held,running": 1,
      "held,cancelled": 1,
      "race,running": 1,
      "race,completed": 1,
      "asks,running": 1,
      "asks,completed": 1,
    });
    expect(valuesOf(last, "agentserve_step_attempts_total")).toEqual({
      "order,success": 6,
      "approve,suspended": 2,
      "approve,success": 1,
      "broken,error": 2,
      "held,aborted": 1,
      "race,success": 1,
      "race,aborted": 1,
      "asks,success": 2,
    });
    expect(valuesOf(last, "agentserve_model_calls_total")).toEqual({
      "helper,success": 2,
      "failing,error": 1,
      "other,success": 1,
    });
    const { usage } = answer.body.data;
    expect(usage).toMatchObject({ inputTokens: 3, outputTokens: 2 });
    expect(valuesOf(last, "agentserve_model_input_tokens_total")).toEqual({ helper: 7, other: 3 });
    expect(valuesOf(last, "agentserve_model_output_tokens_total")).toEqual({ helper: 5, other: 2 });
    const isEmbedded = chosenBackend.name === "embedded";
    expect(valuesOf(last, "agentserve_executions_suspended")).toEqual(isEmbedded ? { approve: 1 } : {});
    expect(last.has("agentserve_store_write_duration_seconds")).toBe(isEmbedded);

    const names = new Set(
      [...last.values()].flatMap((one) => one.samples.flatMap(({ labels }) => Object.keys(labels))),
    );
    const shared = ["route", "status", "workflow", "agent", "le"];
    expect(names).toEqual(new Set(isEmbedded ? shared : [...shared, "cause"])); // of agentserve_drive_rescues_total
  });
});

const sum = (list: readonly number[]): number => list.reduce((all, one) => all + one, 0);

it("documents every metric in docs/observability.md with its type and labels", async () => {
  const server = await startServer("in process", { config });
  const { execute, read } = createLoad(server);
  await execute("order");
  await read();
  const families = await eventually(async () => {
    const found = await read();
    expect(found.has("agentserve_event_loop_delay_max_seconds")).toBe(true);
    return found;
  });
  await server.close();
  const rows = readFileSync("docs/observability.md", "utf8").split("\n");
  for (const { name, type, samples } of families.values()) {
    const labels = new Set(samples.flatMap(({ labels: own }) => Object.keys(own)).filter((label) => label !== "le"));
    const row = rows.find((line) => line.startsWith("|") && line.includes(`\`${name}\``)) ?? "";
    const [, , shownType, shownLabels] = row.split("|").map((cell) => cell.trim());
    const expected = name.startsWith("process_") ? ["", ""] : [type, [...labels].map((one) => `\`${one}\``).join(", ")];
    expect([name, shownType, shownLabels]).toEqual([name, ...expected]);
  }
});
