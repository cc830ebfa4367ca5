import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { openSocket } from "../harness/server.ts";

interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  status: { code?: number };
  attributes: { key: string; value: Record<string, unknown> }[];
}

const config = (collector: string) => `
  import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
  import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
  import { trace } from "@opentelemetry/api";
  import { andAgent, andWorkflow, defineAgent, defineConfig, defineTool, defineWorkflow } from "agentserve";
  import { echoModel } from "agentserve/models";
  import * as v from "valibot";

  const exporter = new OTLPTraceExporter({ url: "${collector}/v1/traces" });
  new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();

  const weather = defineTool({ description: "Weather", inputSchema: v.object({}), execute: () => "blue" });
  const helper = defineAgent({ id: "helper", instructions: "", model: echoModel(), tools: { weather } });
  const approve = defineWorkflow({ id: "approve" }).andThen({
    id: "decide",
    execute: ({ resumeData, suspend }) =>
      trace.getTracer("mine").startActiveSpan("a span of mine", (span) => {
        span.end();
        return resumeData ?? suspend("ok?");
      }),
  });
  const trip = defineWorkflow({ id: "trip" })
    .andAll({ id: "both", steps: [andAgent({ id: "ask", agent: helper, prompt: "What is the weather?" }), andWorkflow({ id: "sub", workflow: approve })] })
    .andThen({ id: "done", execute: () => "done" });
  export default defineConfig({ agents: [helper], workflows: [trip], server: { port: 0, cors: false } });`;

/** Starts a server whose SDK exports its spans to this process. */
async function startExporting() {
  const exported: OtlpSpan[] = [];
  const collector = createServer(async (req, res) => {
    const { resourceSpans } = (await json(req)) as { resourceSpans: { scopeSpans: { spans: OtlpSpan[] }[] }[] };
    exported.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)));
    res.end("{}");
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void collector.close());
  await once(collector, "listening");
  const cwd = createProject({
    "agents.config.ts": config(`http://127.0.0.1:${(collector.address() as AddressInfo).port}`),
  });
  const child = agentserve(["start", "--data", ":memory:"], { cwd });
  const [base] = await child.waitFor(/http:\/\/\S+:(\d+)/);
  return { exported, base: base!, child };
}

it("exports no span of a trace that its caller does not sample", async () => {
  const { exported, base } = await startExporting();
  const run = async (traceparent: string) => {
    const headers = { "content-type": "application/json", traceparent };
    await (await fetch(`${base}/workflows/trip/execute`, { method: "POST", headers, body: '{"input":{}}' })).text();
  };
  const [unsampled, sampled] = ["a".repeat(32), "b".repeat(32)];
  await run(`00-${unsampled}-b7ad6b7169203331-00`);
  await run(`00-${sampled}-b7ad6b7169203331-01`);
  await expect.poll(() => exported.filter(({ kind }) => kind === 2).length).toBeGreaterThan(0);
  const traces = exported.filter(({ name }) => name !== "a span of mine").map(({ traceId }) => traceId);
  expect(new Set(traces)).toEqual(new Set([sampled]));
});

it("gives the same spans to the OpenTelemetry SDK that a project has registered", async () => {
  const { exported, base, child } = await startExporting();

  const socket = await openSocket(`${base.replace("http", "ws")}/ws/observability`);
  const post = async (path: string, body: object) => {
    const headers = { "content-type": "application/json" };
    return (await fetch(base + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
  };
  await post("/workflows/trip/execute", { input: {}, options: { executionId: "e1" } });
  await post("/workflows/trip/executions/e1/resume", { resumeData: { ok: true } });

  const seen: any[] = [];
  const isOver = () => seen.filter(({ kind, endTime }) => kind === "server" && endTime).length === 2;
  while (!isOver()) {
    const { type, data } = await socket.next();
    if (type === "OBSERVABILITY_EVENT" && data.type === "span:end") seen.push(data.span);
  }
  socket.close();
  const isMine = ({ name }: { name: string }) => name === "a span of mine";
  await expect.poll(() => exported.filter((span) => !isMine(span)).length).toBe(seen.length);

  const codes = { ok: 1, error: 2 };
  const kinds = { internal: 1, server: 2, client: 3 };
  const ours = seen.map(({ traceId, spanId, parentSpanId, name, kind, status }) => {
    return { traceId, spanId, parentSpanId, name, kind: kinds[kind as "server"], status: codes[status.code as "ok"] };
  });
  const theirs = exported.map(({ traceId, spanId, parentSpanId, name, kind, status }) => {
    return { traceId, spanId, parentSpanId: parentSpanId || undefined, name, kind, status: status.code };
  });
  const byId = (a: { spanId: string }, b: { spanId: string }) => (a.spanId < b.spanId ? -1 : 1);
  expect(theirs.filter((span) => !isMine(span)).toSorted(byId)).toEqual(ours.toSorted(byId));
  expect(ours).toHaveLength(16);
  const usage = exported.find(({ name }) => name === "invoke_agent helper")!.attributes.map(({ key }) => key);
  expect(usage).toEqual(
    expect.arrayContaining(["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "entity.id"]),
  );
  // What the project's own code traces stands under the step that it runs in.
  const parents = exported
    .filter(isMine)
    .map(({ parentSpanId }) => ours.find(({ spanId }) => spanId === parentSpanId)?.name);
  expect(parents).toEqual(["step sub/decide", "step sub/decide"]);
  child.process.kill("SIGTERM");
  expect((await child.ended).code).toBe(0);
});
