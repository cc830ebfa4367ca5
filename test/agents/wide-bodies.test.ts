import { defineAgent, type AgentContext } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, startTestServer, type TestServer } from "../harness/server.ts";

const answer = scriptedModel(Array.from({ length: 100 }, () => "ok"));
const agents = [
  defineAgent({ id: "a", instructions: "", model: { ...answer, supportedUrls: { "*/*": [/^https:/] } } }),
  defineAgent({ id: "echo", instructions: "", model: echoModel() }),
];
let server: TestServer;
let plain: number;
beforeAll(async () => {
  server = await startServer("in process", { config: { agents } });
  await server.post("/agents/a/text", { input: "the SDK is loaded now" });
  plain = await minCpu(() => JSON.stringify(JSON.parse(wide)));
});
afterAll(() => server.close());

const keys = (count: number, value = "1") => Array.from({ length: count }, (_, n) => `"key${n}":${value}`).join();
const message = (text: string) => `{"input":[${text}]}`;
/** 2 MB of keys, which is the JSON that takes the longest to parse. */
const wide = `{${keys(150_000)}}`;

/** Returns the processor time of the least of three runs: of the others, a part is the garbage of earlier work. */
async function minCpu(run: () => unknown): Promise<number> {
  const all: number[] = [];
  for (let n = 0; n < 3; n++) {
    const before = process.threadCpuUsage();
    await run();
    const { user, system } = process.threadCpuUsage(before);
    all.push(user + system);
  }
  return Math.min(...all);
}

async function send(body: string, expected: number): Promise<void> {
  const headers = { "content-type": "application/json" };
  const { status, text } = await server.request("/agents/a/text", { method: "POST", headers, body });
  expect([status, status === expected ? "" : text]).toEqual([expected, ""]);
}

describe("a wide body", () => {
  it.each<[string, string, number]>([
    ["unknown keys", `{"input":"hi",${wide.slice(1)}`, 200],
    ["unknown keys of options", `{"input":"hi","options":${wide}}`, 200],
    ["unknown keys of a message", message(`{"role":"user","content":"hi",${wide.slice(1)}`), 200],
    [
      "unknown keys of a UI message",
      message(`{"role":"user","parts":[{"type":"text","text":"hi"}],${wide.slice(1)}`),
      200,
    ],
    [
      "unknown keys of a model message",
      message(`{"role":"user","content":[{"type":"text","text":"hi"}],${wide.slice(1)}`),
      200,
    ],
    ["keys inside of the context", `{"input":"hi","options":{"context":{"a":${wide}}}}`, 200],
    ["keys of the context", `{"input":"hi","options":{"context":${wide}}}`, 400],
    ["many provider options", `{"input":"hi","options":{"providerOptions":{${keys(100_000, '{"a":1}')}}}}`, 400],
  ])("a body of 2 MB with %s costs a small multiple of its JSON", async (_, body, status) => {
    expect((await minCpu(() => send(body, status))) / plain).toBeLessThan(2.5);
  });

  it("a file in base64url costs a small multiple of one in base64", async () => {
    const file = (data: string) =>
      message(`{"role":"user","content":[{"type":"file","mediaType":"a/b","data":"${data}"}]}`);
    const usual = await minCpu(() => send(file("aGkh".repeat(490_000)), 200));
    expect((await minCpu(() => send(file("-_-_".repeat(490_000)), 200))) / usual).toBeLessThan(3);
  });
});

describe("the bounds of a body", () => {
  it.each(["context", "providerOptions"])("refuses more than 10,000 keys in options.%s", async (field) => {
    const entries = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`key${n}`, {}]));
    const post = (count: number) =>
      server.post("/agents/echo/text", { input: "hi", options: { [field]: entries(count) } });
    expect((await post(10_000)).status).toBe(200);
    const { status, body } = await post(10_001);
    expect([status, body.error]).toEqual([400, `Invalid request body: options.${field}: more than 10000 keys`]);
  });

  it("refuses wrong metadata, and names its first wrong entry", async () => {
    const wrong = Object.fromEntries(Array.from({ length: 4_900 }, (_, n) => [`provider${n}`, 1]));
    const text = { type: "text", text: "hi" };
    const output = { type: "content", value: [{ ...text, providerOptions: { a: {}, b: [] } }] };
    for (const [sent, place] of [
      [{ role: "user", parts: [text, { ...text, providerMetadata: wrong }] }, "parts.1.providerMetadata.provider0"],
      [{ role: "user", content: [{ ...text, providerOptions: wrong }] }, "content.0.providerOptions.provider0"],
      [{ role: "user", content: [text], providerOptions: wrong }, "providerOptions.provider0"],
      [
        { role: "tool", content: [{ type: "tool-result", toolCallId: "c", toolName: "t", output }] },
        "content.0.output.value.0.providerOptions.b",
      ],
    ] as const) {
      const { status, body } = await server.post("/agents/echo/text", {
        input: [{ role: "user", content: "hi" }, sent],
      });
      expect([status, body.error]).toEqual([400, `Invalid request body: input.1.${place}: expected an object`]);
    }
  });

  it("drops context keys that could change a prototype", async () => {
    let seen: unknown;
    const note = ({ context }: { context: AgentContext }) => void (seen = [...context.context.keys()]);
    const agent = defineAgent({ id: "a", instructions: "", model: echoModel(), hooks: { onStart: note } });
    const own = await startTestServer("in process", { config: { agents: [agent] } });
    const headers = { "content-type": "application/json" };
    const body =
      '{"input":"hi","options":{"context":{"__proto__":{"x":1},"constructor":1,"prototype":2,"plan":"pro"}}}';
    expect((await own.request("/agents/a/text", { method: "POST", headers, body })).status).toBe(200);
    expect(seen).toEqual(["plan"]);
  });
});
