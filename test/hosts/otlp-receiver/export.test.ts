import { describe, expect, it, onTestFinished } from "vitest";
import { agentserve } from "../../harness/cli.ts";
import { createProject } from "../../harness/project.ts";
import { openSocket } from "../../harness/server.ts";
import { startReceiver, type ReceivedSpan } from "./receiver.ts";

const config = `
  import { andAgent, andWorkflow, defineAgent, defineConfig, defineTool, defineWorkflow, ServeError } from "agentserve";
  import { echoModel } from "agentserve/models";
  import * as v from "valibot";

  const weather = defineTool({ description: "Weather", inputSchema: v.object({}), execute: () => "blue" });
  const helper = defineAgent({ id: "helper", instructions: "", model: echoModel(), tools: { weather } });
  const approve = defineWorkflow({ id: "approve" })
    .andThen({ id: "decide", execute: ({ resumeData, suspend }) => resumeData ?? suspend("ok?") });
  const trip = defineWorkflow({ id: "trip" })
    .andAll({ id: "both", steps: [andAgent({ id: "ask", agent: helper, prompt: "What is the weather?" }), andWorkflow({ id: "sub", workflow: approve })] })
    .andThen({ id: "done", execute: () => "done" });
  const broken = defineWorkflow({ id: "broken", input: v.object({ text: v.string() }) })
    .andThen({ id: "fails", execute: ({ data }) => { throw new Error(data.text); } });
  export default defineConfig({ agents: [helper], workflows: [trip, broken], server: { port: 0 } });`;

const hostile = [
  "plain",
  "\u0000\u0001\u007f",
  "\ud800 lone",
  "\udc00",
  "😀\u202e\ufeff\uffff",
  'quote " back \\ line\n\r\u2028',
  "x".repeat(20_000),
  "é".repeat(4_095),
  "Bearer abcdefghijklmnop",
  "",
];

describe.each(["http/protobuf", "http/json"])("OTLP over %s", (protocol) => {
  it("exports OTLP that OpenTelemetry's decoders accept, with the last spans before SIGTERM", async () => {
    const receiver = await startReceiver();
    onTestFinished(() => void receiver.close());
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20collector,x-tenant=a=b",
      OTEL_EXPORTER_OTLP_COMPRESSION: protocol === "http/json" ? "gzip" : "none",
      OTEL_SERVICE_NAME: "shop",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test,team=%C3%A9t%C3%A9,service.name=other",
      OTEL_BSP_SCHEDULE_DELAY: "3600000",
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "20",
    };
    const child = agentserve(["start", "--data", ":memory:"], {
      cwd: createProject({ "agents.config.ts": config }),
      env,
    });
    const [base] = await child.waitFor(/http:\/\/\S+:(\d+)/);
    const socket = await openSocket(`${base!.replace("http", "ws")}/ws/observability`);
    const post = async (path: string, body: object): Promise<any> => {
      const headers = { "content-type": "application/json" };
      return (await fetch(base + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
    };
    const requests: Promise<unknown>[] = [];
    for (const [index, text] of hostile.entries()) {
      const options = { executionId: `e${index}`, userId: text, conversationId: text, context: { [text]: text } };
      await post("/workflows/trip/execute", { input: {}, options });
      await post(`/workflows/trip/executions/e${index}/resume`, { resumeData: { ok: text } });
      await post("/workflows/broken/execute", { input: { text }, options: { userId: text } });
      await post("/agents/helper/text", { input: `What is the weather? ${text}`, options: { userId: text } });
      requests.push(fetch(`${base}/${encodeURIComponent(text.toWellFormed()).slice(0, 2_000)}`));
    }
    await Promise.all(requests);

    const seen: any[] = [];
    const count = hostile.length * 5;
    while (seen.filter(({ kind }) => kind === "server").length < count) {
      const { type, data } = await socket.next();
      if (type === "OBSERVABILITY_EVENT" && data.type === "span:end") seen.push(data.span);
    }
    child.process.kill("SIGTERM");
    expect(await child.ended).toMatchObject({ code: 0 });

    expect(receiver.refusals).toEqual([]);
    expect(receiver.requests.length).toBeGreaterThan(3);
    for (const { headers, resource, spans } of receiver.requests) {
      expect(headers).toMatchObject({ authorization: "Bearer collector", "x-tenant": "a=b" });
      expect(resource).toMatchObject({ "service.name": "shop", "deployment.environment.name": "test", team: "été" });
      expect(spans.length).toBeLessThanOrEqual(20);
    }
    const byId = (a: { spanId: string }, b: { spanId: string }): number => (a.spanId < b.spanId ? -1 : 1);
    expect(receiver.spans().toSorted(byId).map(toComparable)).toEqual(seen.map(toExpected).toSorted(byId));
    const trip = receiver.spans().find(({ name }) => name === "workflow trip")!;
    const nested = receiver.spans().filter(({ traceId }) => traceId === trip.traceId);
    expect(toPath(nested, "execute_tool weather")).toEqual([
      "POST /workflows/:id/execute",
      "workflow trip",
      "step both",
      "step ask",
      "invoke_agent helper",
      "execute_tool weather",
    ]);
    expect(nested.filter(({ links }) => links.length > 0)).toHaveLength(1);
  });
});

/** Returns the names from the root of a trace to a span. */
function toPath(spans: readonly ReceivedSpan[], name: string): string[] {
  const path: string[] = [];
  let span = spans.find((one) => one.name === name);
  for (; span; span = spans.find(({ spanId }) => spanId === span!.parentSpanId)) path.unshift(span.name);
  return path;
}

/** Returns a span without its times. */
function toComparable({ traceId, spanId, parentSpanId, name, kind, attributes, links, status }: ReceivedSpan): object {
  return { traceId, spanId, parentSpanId, name, kind, attributes, links, status };
}
/** Returns a span of /ws/observability as the receiver must have read it. */
function toExpected(span: any): { spanId: string } {
  const { traceId, spanId, parentSpanId, name, kind, attributes, links = [], status } = span;
  const { code, message } = status;
  const text = (value: unknown): unknown => (typeof value === "string" ? value.toWellFormed() : value);
  const pairs = Object.entries(attributes).map(([key, value]) => [key, text(value)]);
  return {
    traceId,
    spanId,
    parentSpanId,
    name,
    kind: { internal: 1, server: 2, client: 3 }[kind as "server"],
    attributes: Object.fromEntries(pairs),
    links: links.map((link: any) => ({ traceId: link.traceId, spanId: link.spanId })),
    status: { code: { ok: 1, error: 2 }[code as "ok"], ...(message && { message: text(message) }) },
  } as { spanId: string };
}
