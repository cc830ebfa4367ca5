import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineAgent, defineWorkflow, ServeError } from "agentserve";
import { echoModel } from "agentserve/models";
import type { OpenApi } from "../../src/pages/document/openapi.ts";
import { withBounds } from "../harness/bounds.ts";
import { startServer, startTestServer, type TestServer } from "../harness/server.ts";
import { bySize } from "../harness/size.ts";

const long = "x".repeat(bySize(100_000, 1_000_000));
/** The longest error body, and the longest record of the log. Most of them hold one value, cut to 200 characters. */
const maxOfBody = 600;
const maxOfRecord = 8_192;

const throwing = { id: "throw", execute: ({ data }: { data: unknown }) => raise(JSON.stringify(data)) };
function raise(message: string): never {
  throw new Error(message);
}
const workflows = [
  defineWorkflow({ id: "valibot", input: v.object({ n: v.number() }) }).andThen(throwing),
  defineWorkflow({ id: "valibot-union", input: v.object({ n: v.union([v.literal("a"), v.number()]) }) }).andThen(
    throwing,
  ),
  defineWorkflow({ id: "zod", input: z.object({ n: z.enum(["a", "b"]) }).strict() }).andThen(throwing),
  defineWorkflow({
    id: "zod-own-words",
    input: z.object({ n: z.string().refine(() => false, { error: ({ input }) => `not ${String(input)}` }) }),
  }).andThen(throwing),
  defineWorkflow({ id: "arktype", input: type({ n: "'a' | 'b'" }) }).andThen(throwing),
  defineWorkflow({ id: "arktype-keys", input: type({ "[string]": "number" }) }).andThen(throwing),
  defineWorkflow({ id: "throws" }).andThen(throwing),
  defineWorkflow({ id: "asks", resumeSchema: v.object({ n: v.number() }) }).andThen({
    id: "ask",
    execute: ({ suspend, resumeData }) => resumeData ?? suspend("more?"),
  }),
];
const agents = [defineAgent({ id: "helper", instructions: "Help.", model: echoModel() })];

const open = () => startServer("in process", { config: withBounds({ schemaMs: 10_000 }, { workflows, agents }) });

/** Returns every error body that is too long, by what was sent. */
async function findLongErrors(server: TestServer, requests: readonly [path: string, body?: unknown][]) {
  const found: Record<string, number> = {};
  let refused = 0;
  for (const [path, body] of requests) {
    const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: json };
    const response = await server.send(path, sent);
    if (response.status < 400) {
      await response.body?.cancel(); // a stream of all executions never ends
      continue;
    }
    const text = await response.text();
    refused++;
    const { executionId: _, ...error } = JSON.parse(text);
    expect(error).toEqual({ success: false, error: expect.any(String) });
    if (text.length > maxOfBody) found[`${path} ${JSON.stringify(body) ?? ""}`.slice(0, 200)] = text.length;
  }
  expect(refused).toBeGreaterThan(requests.length / 2);
  return found;
}
const json = { "content-type": "application/json" };

describe("an error that is about a long value", () => {
  it("shows at most 200 characters of a long path or query in the errors of every route", async () => {
    const server = await open();
    const doc = (await (await server.send("/doc", {})).json()) as OpenApi;
    const requests: [string, unknown?][] = [];
    for (const [path, operations] of Object.entries(doc.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        const body = method === "post" ? {} : undefined;
        if (path.includes("{")) requests.push([path.replace(/\{\w+\}/g, long), body]);
        if (path.includes("{executionId}"))
          requests.push([path.replace("{id}", "asks").replace("{executionId}", long), body]);
        const known = path
          .replace("{id}", path.startsWith("/agents") ? "helper" : "asks")
          .replace("{executionId}", "e");
        for (const { name, in: place } of (operation as { parameters: { name: string; in: string }[] }).parameters) {
          if (place === "query") requests.push([`${known}?${name}=${long}`], [`${known}?${name}=1&${name}=${long}`]);
        }
        if (known.includes("executions")) requests.push([`${known}?${long}=1&${long}=2`, body]);
      }
    }
    expect(requests.length).toBeGreaterThan(30);
    expect(await findLongErrors(server, requests)).toEqual({});
    await server.close();
  });

  it("shows at most 200 characters of a long field of a body in errors", async () => {
    const server = await open();
    await server.post("/workflows/asks/execute", { input: {}, options: { executionId: "asked" } });
    const inputs = [long, [long], { [long]: 1 }, { n: long }, { n: 1, [long]: long }, { n: { [long]: [long] } }];
    const values = [long, { [long]: long }];
    const keys = ["input", "resumeData", "reason", "schema", "messages", "options", long];
    const fields = keys.flatMap((key) => values.map((value) => ({ input: {}, [key]: value })));
    const names = ["userId", "conversationId", "executionId", "context", "stepId"];
    const options = names.flatMap((key) => values.map((value) => ({ input: {}, options: { [key]: value } })));
    const paths = [
      "/workflows/valibot/execute",
      "/workflows/valibot/stream",
      ...["suspend", "resume", "cancel"].map((verb) => `/workflows/asks/executions/other/${verb}`),
      "/workflows/asks/executions/asked/resume",
      ...["text", "object", "chat"].map((verb) => `/agents/helper/${verb}`),
    ];
    const requests = paths.flatMap((path) => [...fields, ...options].map((body): [string, unknown] => [path, body]));
    for (const { id } of workflows) for (const input of inputs) requests.push([`/workflows/${id}/execute`, { input }]);
    const messages = [
      { role: long, content: "x" },
      { role: "user", content: [{ type: long }] },
      { role: "user", content: [{ type: "image", image: `${long}://x` }] },
      { role: "user", content: [{ type: "file", mediaType: long, data: `${long}:x` }] },
      { role: "tool", content: [{ type: "tool-result", toolCallId: long, toolName: long, output: { type: long } }] },
      { role: "user", parts: [{ type: long, text: long }] },
      { id: long, role: "user", content: "x" },
    ];
    for (const message of messages) requests.push(["/agents/helper/text", { input: [message] }]);
    const schemas = [
      { $ref: long },
      { type: long },
      { type: "object", pattern: `(${long}` },
      { [long]: long, type: "object" },
    ];
    for (const schema of schemas) requests.push(["/agents/helper/object", { input: "x", schema }]);
    expect(await findLongErrors(server, requests)).toEqual({});
    const logged = (await server.get("/api/logs?limit=1000")).body.data as object[];
    expect(logged.length).toBeGreaterThan(0);
    const records = logged.map((record) => JSON.stringify(record));
    expect(
      records.filter((text) => text.length > maxOfRecord).map((text) => [text.length, text.slice(0, 300)]),
    ).toEqual([]);
    await server.close();
  });

  it("cuts the message of an error that a step throws", async () => {
    const server = await startTestServer("dev", { config: { workflows } });
    await server.post("/workflows/throws/execute", { input: { long }, options: { executionId: "thrown" } });
    const { body } = await server.get("/workflows/throws/executions/thrown/state");
    expect(body.data.error).toMatch(/^\{"long":"x{1991}…$/);
    const { events } = await server.get("/workflows/throws/executions/thrown/stream");
    expect(events.filter((event) => JSON.stringify(event).length > 6_000)).toEqual([]);
  });

  it("cuts the message of an error that a custom route throws", async () => {
    const refuse = (): never => {
      throw new ServeError(400, long);
    };
    const server = await startTestServer("in process", {
      config: { configureApp: (app) => void app.get("/custom", refuse) },
    });
    const { status, body } = await server.get("/custom", { custom: true });
    expect([status, body.error]).toEqual([400, `${"x".repeat(2_000)}…`]);
  });
});
