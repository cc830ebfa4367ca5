import { once } from "node:events";
import { createServer as createHttpServer, type IncomingHttpHeaders, type RequestListener } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Server as TcpServer } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { defineWorkflow } from "agentserve";
import { TracerProvider, type ReadableSpan } from "@opentelemetry/sdk-trace";
import { ExportQueue } from "../../src/observability/otlp/export-queue.ts";
import { startServer, type TestServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";
import { parseExposition, valuesOf } from "./metrics/exposition.ts";

afterEach(() => vi.unstubAllEnvs());

async function listen(server: TcpServer): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Received {
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: any;
}
/** Receives OTLP/JSON. Responds with these statuses in turn, then with 200. */
async function receive(...answers: { status: number; retryAfter?: string }[]) {
  const received: Received[] = [];
  const listener: RequestListener = async (req, res) => {
    const { status = 200, retryAfter } = answers.shift() ?? {};
    received.push({ url: req.url, headers: req.headers, body: JSON.parse(await text(req)) });
    res.writeHead(status, { ...(retryAfter && { "retry-after": retryAfter }) }).end();
  };
  const http = createHttpServer(listener);
  onTestFinished(() => http.closeAllConnections());
  const url = await listen(http);
  const names = (): string[] => received.flatMap(({ body }) => toSpans(body).map(({ name }) => name));
  return { url, received, names };
}
const toSpans = ({ resourceSpans }: any): any[] => resourceSpans.flatMap((one: any) => one.scopeSpans[0].spans);

const greet = defineWorkflow({ id: "greet" }).andThen({ id: "say", execute: () => "hello" });
const secret = "Bearer-of-the-collector";

/** Serves with these variables. Each execution has the three spans of `names`. */
async function serve(env: Record<string, string>, limits = { drainMs: 300 }): Promise<TestServer> {
  const preset = { OTEL_EXPORTER_OTLP_PROTOCOL: "http/json", OTEL_EXPORTER_OTLP_HEADERS: `authorization=${secret}` };
  for (const [name, value] of Object.entries({ ...preset, ...env })) vi.stubEnv(name, value);
  return startServer("in process", { config: { workflows: [greet], server: { limits } } });
}
const names = ["step say", "workflow greet", "POST /workflows/:id/execute"];
const execute = (server: TestServer) => server.post("/workflows/greet/execute", { input: {} });
async function count(server: TestServer): Promise<{ exported: number; dropped: number }> {
  const families = parseExposition((await server.get("/metrics")).text);
  const { "": exported = 0 } = valuesOf(families, "agentserve_spans_exported_total");
  const { "": dropped = 0 } = valuesOf(families, "agentserve_spans_dropped_total");
  return { exported, dropped };
}
const warningsOf = ({ logs }: TestServer) => logs.filter(({ level }) => level === "warn");

describe("OTEL_EXPORTER_OTLP_ENDPOINT", () => {
  it("exports spans to OTEL_EXPORTER_OTLP_ENDPOINT when the server is closed, and counts them", async () => {
    const { url, received, names: exported } = await receive();
    const server = await serve({ OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/`, OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "2" });
    await execute(server);
    await eventually(async () => expect((await count(server)).exported).toBeGreaterThan(0));
    await server.close();
    expect(exported()).toEqual(expect.arrayContaining(names));
    expect(received[0]).toMatchObject({ url: "/v1/traces", headers: { authorization: secret } });
    expect(warningsOf(server)).toEqual([]);
  });

  it("exports a queue of more batches than OpenTelemetry sends at once when the server is closed", async () => {
    const { url, names: exported } = await receive();
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "1" };
    const server = await serve(env, { drainMs: 60_000 });
    for (let n = 0; n < 40; n++) await server.get("/workflows");
    await server.close();
    expect(exported().filter((name) => name === "GET /workflows")).toHaveLength(40);
    expect(warningsOf(server)).toEqual([]);
  });

  it.each([
    ["OTEL_SDK_DISABLED", "true"],
    ["OTEL_TRACES_EXPORTER", "none"],
    ["OTEL_TRACES_SAMPLER", "always_off"],
    ["OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "0"],
  ])("exports no spans with %s=%s", async (name, value, argument = "") => {
    const { url, received } = await receive();
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: url, [name]: value, OTEL_TRACES_SAMPLER_ARG: argument };
    const server = await serve(env);
    await execute(server);
    await server.close();
    expect([received, warningsOf(server)]).toEqual([[], []]);
  });

  it("uses OTEL_EXPORTER_OTLP_TRACES_ENDPOINT as it is, and exports only what a caller samples", async () => {
    const { url, received } = await receive();
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: "x", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/own?a=b` };
    const server = await serve(env);
    const ask = (flags: string, id: string) =>
      server.send("/workflows", { headers: { traceparent: `00-${id.repeat(32)}-b7ad6b7169203331-${flags}` } });
    await ask("00", "a");
    await ask("01", "b");
    await server.close();
    expect(received.map((one) => one.url)).toEqual(["/own?a=b"]);
    const traces = toSpans(received[0]!.body).filter(({ name }) => name === "GET /workflows");
    expect(traces).toMatchObject([{ traceId: "b".repeat(32), parentSpanId: "b7ad6b7169203331" }]);
  });

  it.each([
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317", /^OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL/],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", `http://${secret}@[`, /^OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL/],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", /^OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not supported, expected http/],
    ["OTEL_EXPORTER_OTLP_HEADERS", secret, /^OTEL_EXPORTER_OTLP_HEADERS: expected headers as name=value/],
    ["OTEL_EXPORTER_OTLP_HEADERS", `a=${secret}%0d%0ab: c`, /^OTEL_EXPORTER_OTLP_HEADERS: expected headers/],
    ["OTEL_TRACES_EXPORTER", "zipkin", /^OTEL_TRACES_EXPORTER: expected otlp or none/],
  ])("serves with an invalid %s (%s), with one warning that does not show the value", async (name, value, message) => {
    const { url, received } = await receive();
    const server = await serve({ OTEL_EXPORTER_OTLP_ENDPOINT: url, [name]: value });
    expect((await execute(server)).status).toBe(200);
    await server.close();
    expect(warningsOf(server)).toMatchObject([{ message: expect.stringMatching(message) }]);
    expect(warningsOf(server)[0]!.message).toMatch(/Spans are not exported$/);
    expect(JSON.stringify(server.logs)).not.toContain(secret);
    expect(received).toEqual([]);
  });

  it.each([
    ["OTEL_TRACES_SAMPLER", "sometimes"],
    ["OTEL_BSP_MAX_QUEUE_SIZE", "many"],
    ["OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"],
    ["OTEL_RESOURCE_ATTRIBUTES", "a"],
  ])("exports spans with an invalid %s, with one warning", async (name, value) => {
    const { url, names: exported } = await receive();
    const server = await serve({ OTEL_EXPORTER_OTLP_ENDPOINT: url, [name]: value });
    await execute(server);
    await server.close();
    expect(warningsOf(server)).toMatchObject([{ message: expect.stringMatching(`^${name}: `) }]);
    expect(exported()).toEqual(expect.arrayContaining(names));
  });
});

describe("a receiver in trouble", () => {
  it("sends a batch again after 503 and 429, as Retry-After says", async () => {
    const now = { retryAfter: "0" };
    const past = { retryAfter: "Wed, 21 Oct 2015 07:28:00 GMT" };
    const { url, received } = await receive({ status: 503, ...now }, { status: 429, ...past });
    const server = await serve({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_BSP_SCHEDULE_DELAY: "1" });
    await server.get("/workflows");
    await eventually(async () => expect((await count(server)).exported).toBeGreaterThan(0));
    const [first, second, third] = received.map(({ body }) => body);
    expect([second, third]).toEqual([first, first]);
    expect((await count(server)).dropped).toBe(0);
    await server.close();
  });

  it("drops a batch that the receiver refuses with 400, with one warning that tells the reason", async () => {
    const bad = { status: 400 };
    const { url, received } = await receive(bad, bad, bad);
    const server = await serve({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "1" });
    for (let n = 0; n < 3; n++) await server.get("/workflows");
    await eventually(async () => expect((await count(server)).dropped).toBe(3));
    const bodies = received.map(({ body }) => JSON.stringify(body));
    expect(new Set(bodies).size).toBe(bodies.length);
    const data = { host: new URL(url).host, reason: "the response has status 400", dropped: 1 };
    expect(warningsOf(server)).toEqual([
      { level: "warn", message: "Spans were dropped: the OTLP endpoint did not take them", data },
    ]);
    expect(JSON.stringify(server.logs)).not.toContain(secret);
    await server.close();
  });

  it.each(["refuses connections", "never answers"])(
    "counts the lost spans of a receiver that %s, and closes",
    async (how) => {
      const tcp = createTcpServer((socket) => onTestFinished(() => void socket.destroy()));
      const url = await listen(tcp);
      if (how === "refuses connections") tcp.close();
      const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        OTEL_EXPORTER_OTLP_TIMEOUT: "3600000",
        OTEL_BSP_MAX_QUEUE_SIZE: "30",
        OTEL_BSP_SCHEDULE_DELAY: "1",
      };
      const server = await serve(env);
      for (let n = 0; n < 30; n++) expect((await execute(server)).status).toBe(200);
      // 30 spans wait. At least as many requests were not traced as come after the queue is full.
      expect((await count(server)).dropped).toBeGreaterThanOrEqual(10);
      await server.close();
      const reason = expect.stringMatching(/^(\d+ spans were not exported)$/);
      expect(warningsOf(server).at(-1)).toMatchObject({ message: "Spans were lost at shutdown", data: { reason } });
    },
  );
});

describe("the queue of spans", () => {
  const provider = new TracerProvider();
  const toSpan = (value = ""): ReadableSpan => {
    const span = provider.getTracer("test").startSpan("x", { attributes: { value } });
    span.end();
    return span as unknown as ReadableSpan; // spans of the SDK implement it
  };
  /** A queue whose exporter answers when the test says so. */
  function createQueue(settings: { queueSpans: number; batchSpans: number }) {
    const totals = { exportedSpans: 0, droppedSpans: 0 };
    const dropped: string[] = [];
    const answers: ((result: { code: 0 | 1; error?: Error }) => void)[] = [];
    const sending = Promise.withResolvers<void>();
    const queue = new ExportQueue({
      settings: { ...settings, delayMs: 3_600_000, timeoutMs: 3_600_000 },
      exporter: {
        export: (_, done) => void answers.push(done),
        shutdown: () => sending.promise,
        forceFlush: () => sending.promise,
      },
      totals,
      onDropped: (reason) => void dropped.push(reason),
    });
    return { queue, totals, dropped, answers, finish: sending.resolve };
  }

  it("bounds the number of queued spans, pauses when the queue is full, and continues when half of it is free", async () => {
    const { queue, totals, answers } = createQueue({ queueSpans: 10, batchSpans: 4 });
    for (let n = 0; n < 10; n++) queue.onEnd(toSpan());
    expect([queue.isPaused, totals.droppedSpans, answers.length]).toEqual([false, 0, 1]);
    queue.onEnd(toSpan());
    expect([queue.isPaused, totals.droppedSpans]).toEqual([true, 1]);
    answers[0]!({ code: 0 });
    expect(queue.isPaused).toBe(true);
    await eventually(() => expect(answers).toHaveLength(2));
    answers[1]!({ code: 0 });
    expect([queue.isPaused, totals]).toEqual([false, { exportedSpans: 8, droppedSpans: 1 }]);
  });

  it("sends what waits when it closes, and takes no more spans", async () => {
    const { queue, totals, answers, finish } = createQueue({ queueSpans: 10, batchSpans: 4 });
    for (let n = 0; n < 9; n++) queue.onEnd(toSpan());
    const closing = queue.close(3_600_000);
    await eventually(() => expect(answers).toHaveLength(3));
    for (const answer of answers) answer({ code: 0 });
    finish();
    expect(await closing).toBe(0);
    queue.onEnd(toSpan());
    expect(totals).toEqual({ exportedSpans: 9, droppedSpans: 1 });
  });

  it("counts a span once that is still being sent when the time of its shutdown is over", async () => {
    const { queue, totals, answers } = createQueue({ queueSpans: 10, batchSpans: 4 });
    for (let n = 0; n < 5; n++) queue.onEnd(toSpan());
    expect(await queue.close(1)).toBe(5);
    for (const answer of answers) answer({ code: 0 });
    expect(totals).toEqual({ exportedSpans: 0, droppedSpans: 5 });
  });

  it("waits for the other batches when one fails at the shutdown", async () => {
    const { queue, totals, answers, finish } = createQueue({ queueSpans: 10, batchSpans: 4 });
    for (let n = 0; n < 9; n++) queue.onEnd(toSpan());
    const closing = queue.close(3_600_000);
    await eventually(() => expect(answers).toHaveLength(3));
    answers[1]!({ code: 1, error: new Error("for a reason") });
    answers[0]!({ code: 0 });
    await new Promise((resolve) => setImmediate(resolve));
    answers[2]!({ code: 0 });
    finish();
    expect(await closing).toBe(4);
    expect(totals).toEqual({ exportedSpans: 5, droppedSpans: 4 });
  });

  it("bounds the bytes of queued spans, and frees those of sent ones", () => {
    const { queue, totals, dropped, answers } = createQueue({ queueSpans: 100_000, batchSpans: 100 });
    const large = "x".repeat(100_000);
    const kept = Math.floor(16_777_216 / (500 + 2 * (1 + 5 + large.length)));
    const fill = (): void => {
      for (let n = 0; n < kept; n++) queue.onEnd(toSpan(large));
    };
    fill();
    expect([queue.isPaused, totals.droppedSpans]).toEqual([false, 0]);
    queue.onEnd(toSpan(large));
    expect([queue.isPaused, totals.droppedSpans, dropped]).toEqual([true, 1, ["the queue is full"]]);
    void queue.forceFlush();
    answers[0]!({ code: 0 });
    expect(queue.isPaused).toBe(false);
    fill();
    expect(totals).toEqual({ exportedSpans: kept, droppedSpans: 1 });
  });
});
