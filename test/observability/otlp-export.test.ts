import { once } from "node:events";
import { createServer as createHttpServer, type IncomingHttpHeaders, type RequestListener } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Server as TcpServer } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { defineWorkflow } from "agentserve";
import { SpanExporter } from "../../src/observability/otlp/exporter.ts";
import type { SpanRecord } from "../../src/observability/otlp/span-record.ts";
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
async function serve(env: Record<string, string>): Promise<TestServer> {
  const preset = { OTEL_EXPORTER_OTLP_PROTOCOL: "http/json", OTEL_EXPORTER_OTLP_HEADERS: `authorization=${secret}` };
  for (const [name, value] of Object.entries({ ...preset, ...env })) vi.stubEnv(name, value);
  return startServer("in process", { config: { workflows: [greet], server: { limits: { drainMs: 300 } } } });
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
  const toSpan = (spanId: string, value: string): SpanRecord => ({
    traceId: "a".repeat(32),
    spanId,
    parentSpanId: undefined,
    name: "x",
    kind: "internal",
    start: 0,
    end: 1,
    attributes: { value },
    links: undefined,
    error: undefined,
  });
  /** An exporter whose receiver answers when the test says so. */
  function createExporter(settings: { queueSpans: number; batchSpans: number }) {
    const totals = { exportedSpans: 0, droppedSpans: 0 };
    const posted: PromiseWithResolvers<{ status: number; retryAfter: undefined }>[] = [];
    const batches: number[] = [];
    const exporter = new SpanExporter({
      settings: { ...settings, delayMs: 3_600_000, timeoutMs: 3_600_000 },
      encode: (spans) => (batches.push(spans.length), Buffer.alloc(1)),
      post: () => {
        const answer = Promise.withResolvers<{ status: number; retryAfter: undefined }>();
        posted.push(answer);
        return answer.promise;
      },
      cut: () => posted.at(-1)?.reject(new Error("cut")),
      totals,
      onDropped: () => {},
    });
    const accept = (): void => posted.at(-1)!.resolve({ status: 200, retryAfter: undefined });
    return { exporter, totals, posted, batches, accept };
  }

  it("bounds the number of queued spans, pauses when the queue is full, and continues when half of it is free", async () => {
    const { exporter, totals, posted, accept } = createExporter({ queueSpans: 10, batchSpans: 4 });
    for (let n = 0; n < 4; n++) exporter.push(toSpan("a", ""));
    await eventually(() => expect(posted).toHaveLength(1));
    for (let n = 0; n < 10; n++) exporter.push(toSpan("a", ""));
    expect([exporter.isPaused, totals.droppedSpans]).toEqual([false, 0]);
    exporter.push(toSpan("a", ""));
    expect([exporter.isPaused, totals.droppedSpans]).toEqual([true, 1]);
    for (let sent = 1; sent < 3; sent++) {
      accept();
      await eventually(() => expect(posted).toHaveLength(sent + 1));
    }
    expect([exporter.isPaused, totals]).toEqual([false, { exportedSpans: 8, droppedSpans: 1 }]);
    const closing = exporter.close(3_600_000);
    accept();
    await eventually(() => expect(posted).toHaveLength(4));
    accept();
    expect(await closing).toBe(0);
    expect(totals).toEqual({ exportedSpans: 14, droppedSpans: 1 });
    exporter.push(toSpan("a", ""));
    expect(totals.droppedSpans).toBe(2);
  });

  it("frees the bytes of sent spans in the queue", async () => {
    const { exporter, totals, posted, accept } = createExporter({ queueSpans: 1_000, batchSpans: 80 });
    const pushMany = (): void => {
      for (let n = 0; n < 80; n++) exporter.push(toSpan("a", "x".repeat(100_000)));
    };
    pushMany();
    for (let sent = 1; sent <= 8; sent++) {
      await eventually(() => expect(posted).toHaveLength(sent));
      accept();
    }
    await eventually(() => expect(totals.exportedSpans).toBe(80));
    pushMany();
    expect(totals.droppedSpans).toBe(0);
  });

  it("bounds the bytes of queued spans, also for one batch", async () => {
    const { exporter, totals, batches, posted, accept } = createExporter({
      queueSpans: 1_000_000,
      batchSpans: 100_000,
    });
    const large = "x".repeat(100_000);
    for (let n = 0; n < 200; n++) exporter.push(toSpan("a", large));
    const kept = Math.floor(16_777_216 / (500 + 2 * (1 + 5 + large.length)));
    expect(totals.droppedSpans).toBe(200 - kept);
    const closing = exporter.close(3_600_000);
    for (let sent = 1; totals.exportedSpans < kept - 10; sent++) {
      await eventually(() => expect(posted).toHaveLength(sent));
      accept();
    }
    await eventually(() => expect(totals.exportedSpans).toBeGreaterThanOrEqual(kept - 10));
    await eventually(() => expect(batches.reduce((sum, one) => sum + one, 0)).toBe(kept));
    accept();
    expect(await closing).toBe(0);
    expect(Math.max(...batches)).toBe(10);
  });
});
