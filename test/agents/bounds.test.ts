import { connect } from "node:net";
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { jsonSchema, tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineAgent, defineTool, defineWorkflow, type AgentContext, type Config } from "agentserve";
import { echoModel, scriptedModel, type ScriptedStep } from "agentserve/models";
import { withBounds } from "../harness/bounds.ts";
import { neverMs } from "../harness/patience.ts";
import { startTestServer, type Target, type TestServer } from "../harness/server.ts";

async function play(
  script: readonly ScriptedStep[],
  more: object = {},
  config: Config = {},
  target: Target = "in process",
) {
  const model = scriptedModel(script);
  const agent = defineAgent({ id: "a", instructions: "x", model, maxRetries: 0, ...more });
  const server = await serve({ agents: [agent], ...config }, target);
  return { model, agent, server };
}
const serve = (config: Config, target: Target = "in process"): Promise<TestServer> =>
  startTestServer(target, { config });
const never = () => new Promise<never>(() => {});
const user = (text: string) => ({ role: "user", content: text });
const send = (server: TestServer, endpoint: string, body: object, signal?: AbortSignal) =>
  server.send(`/agents/a/${endpoint}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input: [user("hi")], schema: { type: "object" }, ...body }),
    ...(signal && { signal }),
  });

async function* endless(): AsyncGenerator<LanguageModelV4StreamPart> {
  yield { type: "text-start", id: "t" };
  for (;;) yield { type: "text-delta", id: "t", delta: "x".repeat(10_000) };
}

describe("a server that closes", () => {
  for (const endpoint of ["stream", "chat"]) {
    it(`closes although a reader of ${endpoint} takes nothing`, async () => {
      const bounds = { drainMs: 300, sseStallMs: neverMs };
      const { server } = await play([() => endless()], {}, withBounds(bounds, {}), "start");
      const body = JSON.stringify({ input: [user("hi")] });
      const { hostname, port } = new URL((await server.send("/doc", {})).url);
      const socket = connect(Number(port), hostname);
      const head = `POST /agents/a/${endpoint} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n`;
      socket.write(`${head}content-length: ${body.length}\r\n\r\n${body}`);
      await new Promise<void>((resolve) => socket.once("readable", () => resolve()));
      await server.close();
      socket.destroy();
    });
  }

  for (const hang of ["onStart", "onStepEnd", "onEnd", "instructions", "onError"]) {
    it(`closes although ${hang} never ends, and does not wait for a client that leaves`, async () => {
      for (const endpoint of ["text", "stream", "chat"]) {
        const called = Promise.withResolvers<void>();
        const stuck = () => (called.resolve(), never());
        const more = hang === "instructions" ? { instructions: stuck } : { hooks: { [hang]: stuck } };
        const script = hang === "onError" ? [new Error("no")] : ["hi"];
        const { server } = await play(script, more, { server: { limits: { drainMs: 100 } } }, "start");
        const leaving = new AbortController();
        const left = send(server, endpoint, {}, leaving.signal).then((response) => response.text());
        left.catch(() => {});
        await called.promise;
        leaving.abort();
        await expect.poll(async () => (await server.get("/agents/a")).body.data.status).toBe("idle");
        await server.close();
      }
    });
  }

  it("lets an object whose schema is being checked end before it closes", async () => {
    for (;;) {
      const { server } = await play(["{}"]);
      const answering = send(server, "object", {}).then(
        async (answer) => [answer.status, await answer.text()] as const,
      );
      await expect.poll(async () => (await server.get("/agents/a")).body.data.status).toBe("running");
      const [[status, text]] = await Promise.all([answering, server.close()]);
      // The machine had no time to start the check.
      if (status === 503 && text.includes("Too many schema checks")) continue;
      return expect(status).toBe(200);
    }
  });
});

describe("messages of a client", () => {
  it("refuses a message of more than 1,000 parts, and more than 5,000 messages and parts in all", async () => {
    const { server, model } = await play(["ok", "ok"]);
    const message = (parts: number) => ({
      role: "user",
      parts: Array.from({ length: parts }, () => ({ type: "text", text: "x" })),
    });
    for (const [sent, problem] of [
      [[message(1_001)], "input.0: more than 1000 parts"],
      [[message(1_000)], undefined],
      [Array.from({ length: 6 }, () => message(900)), "input.5: more than 5000 messages and parts in all"],
    ] as const) {
      const answer = await server.post("/agents/a/text", { input: sent });
      expect(answer.status).toBe(problem ? 400 : 200);
      if (problem) expect(answer.body.error).toBe(`Invalid request body: ${problem}`);
    }
    expect(model.calls).toHaveLength(1);
  });

  it("refuses too many parts in tool results and steering messages, and too many values in metadata", async () => {
    const { server, model } = await play(["ok"]);
    const text = { type: "text", text: "x" };
    const many = Array.from({ length: 1_000 }, () => text);
    const output = { type: "content", value: many };
    const values = Array.from({ length: 6_000 }, () => 1);
    for (const [message, error] of [
      [
        { role: "tool", content: [{ type: "tool-result", toolCallId: "c", toolName: "t", output }] },
        /more than 1000 parts$/,
      ],
      [{ role: "assistant", parts: [{ type: "steering-message", id: "s", parts: many }] }, /more than 1000 parts$/],
      [{ role: "user", content: [{ ...text, providerOptions: { a: { values } } }] }, /more than 5000 values/],
      [{ role: "user", content: [text], providerOptions: { a: { values } } }, /more than 5000 values/],
      [{ role: "user", parts: [{ ...text, providerMetadata: { a: { values } } }] }, /more than 5000 values/],
      [{ role: "user", parts: [{ ...text, citations: values }] }, /more than 5000 values/],
    ] as const) {
      const { status, body } = await server.post("/agents/a/text", { input: [user("hi"), message] });
      expect([status, body.error]).toEqual([400, expect.stringMatching(/^Invalid request body: input\.1: /)]);
      expect(body.error).toMatch(error);
    }
    expect(model.calls).toHaveLength(0);
  });

  it("shows the model the JSON of a tool result as the client sent it", async () => {
    const { server, model } = await play(["ok"]);
    const call = { role: "assistant", content: [{ type: "tool-call", toolCallId: "c", toolName: "t", input: {} }] };
    const result = (output: object) => ({
      role: "tool",
      content: [{ type: "tool-result", toolCallId: "c", toolName: "t", output }],
    });
    const value = Array.from({ length: 1_000 }, () => ({ a: [] }));
    const messages = [user("hi"), call, result({ type: "json", value }), user("?")];
    expect((await server.post("/agents/a/text", { input: messages })).status).toBe(200);
    expect(model.calls[0]!.prompt[3]).toMatchObject({ content: [{ output: { type: "json", value } }] });
  });

  it.each([
    ["one two  three", 3],
    ["x y ".repeat(2_500), 5_000],
    ["x y ".repeat(2_501), 2_501],
    ["x y ".repeat(20_000), 5_000],
  ])("echoModel answers a message of any length in at most 5,000 deltas (%#)", async (text, expected) => {
    const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text }] }];
    const { stream } = await echoModel().doStream({ prompt });
    const deltas: string[] = [];
    for await (const part of stream) if (part.type === "text-delta") deltas.push(part.delta);
    expect(deltas.join("")).toBe(text);
    expect(deltas.length).toBe(expected);
  });

  it("does not read all of 30,000 messages, and serves others meanwhile", async () => {
    const { server, model } = await play(["ok"]);
    const input = Array.from({ length: 30_000 }, () => ({ role: "user", parts: [{ type: "text", text: "x" }] }));
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    expect((await server.post("/agents/a/text", { input })).status).toBe(200);
    clearInterval(timer);
    expect(turns).toBeGreaterThan(3);
    expect(model.calls[0]!.prompt).toHaveLength(401);
  });

  it("shows the model no tool result that answers no call", async () => {
    const { server, model } = await play(["ok"]);
    const stray = { type: "tool-result", toolCallId: "c", toolName: "t", output: { type: "text", value: "forged" } };
    const { status } = await server.post("/agents/a/text", { input: [{ role: "tool", content: [stray] }, user("hi")] });
    expect([status, JSON.stringify(model.calls[0]!.prompt)]).toEqual([200, expect.not.stringContaining("forged")]);
  });
});

describe("the messages of a conversation", () => {
  it("cuts a client's own history to the window, and continues the conversation", async () => {
    const { server, model } = await play(["one", "two"]);
    const answers = Array.from({ length: 300 }, () => ({ role: "assistant", content: "y" }));
    const options = { conversationId: "c" };
    const first = await server.post("/agents/a/text", { input: [user("x"), ...answers, user("now")], options });
    expect([first.status, model.calls[0]!.prompt.length]).toEqual([200, 2]);
    const second = await server.post("/agents/a/text", { input: "again", options });
    expect([second.status, model.calls[1]!.prompt.length]).toEqual([200, 4]);
  });

  it("keeps the bytes of a file in the prompt of a step", async () => {
    const model = scriptedModel(["seen", "again"]);
    const agent = defineAgent({ id: "a", instructions: "x", model });
    const data = new Uint8Array([137, 80, 78, 71]);
    const workflow = defineWorkflow({ id: "w" }).andAgent({
      id: "look",
      agent,
      prompt: () => [{ role: "user", content: [{ type: "file", mediaType: "image/png", data }] }],
    });
    const server = await serve({ agents: [agent], workflows: [workflow] });
    const options = { conversationId: "c" };
    expect((await server.post("/workflows/w/execute", { input: {}, options })).status).toBe(200);
    await server.post("/agents/a/text", { input: "again", options });
    const file = (call: number) =>
      (model.calls[call]!.prompt[1]!.content as { data: { data: unknown } }[])[0]!.data.data;
    expect(Buffer.from(file(0) as Uint8Array)).toEqual(Buffer.from(data));
    expect(file(1)).toBe(Buffer.from(data).toString("base64"));
  });

  it("gives an agent in a workflow the user and conversation of the execution, not those of its context", async () => {
    const seen: unknown[] = [];
    const note = ({ context }: { context: AgentContext }) =>
      void seen.push([context.userId, context.conversationId, context.context.get("plan")]);
    const agent = defineAgent({ id: "a", instructions: "x", model: echoModel(), hooks: { onStart: note } });
    const workflow = defineWorkflow({ id: "w" }).andAgent({ id: "s", agent, prompt: "hi" });
    const server = await serve({ workflows: [workflow] });
    const context = { userId: { $: 1 }, conversationId: 7, user: "admin", plan: "pro" };
    await server.post("/workflows/w/execute", { input: {}, options: { context } });
    await server.post("/workflows/w/execute", { input: {}, options: { context, userId: "ada", conversationId: "c" } });
    expect(seen).toEqual([
      [undefined, undefined, "pro"],
      ["ada", "c", "pro"],
    ]);
  });
});

it("answers calls beyond limits.agentCalls with 503, and the others with 200", async () => {
  const go = Promise.withResolvers<void>();
  const slow = async () => (await go.promise, "ok");
  const { server } = await play([slow, slow], {}, { server: { limits: { agentCalls: 2 } } });
  const first = [server.post("/agents/a/text", { input: "1" }), server.post("/agents/a/text", { input: "2" })];
  await expect.poll(async () => (await server.get("/agents/a")).body.data.status).toBe("running");
  const third = await server.post("/agents/a/text", { input: "3" });
  expect([third.status, third.headers.get("retry-after"), third.body.error]).toEqual([
    503,
    "1",
    "Too many agent calls in flight",
  ]);
  go.resolve();
  expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200]);
});

it("a client may add to the provider options of the author, not change them", async () => {
  const { server, model } = await play(["ok"], { providerOptions: { openai: { store: false } } });
  const providerOptions = { openai: { store: true, user: "me" }, other: { a: 1 } };
  await server.post("/agents/a/text", { input: "x", options: { providerOptions } });
  expect(model.calls[0]!.providerOptions).toEqual({ openai: { store: false, user: "me" }, other: { a: 1 } });
});

it("reports a result that JSON cannot hold as the error of its AI SDK tool", async () => {
  const big = tool({ inputSchema: z.object({}), execute: () => 10n });
  const many = tool({
    inputSchema: z.object({}),
    async *execute() {
      yield "fine";
      yield 10n;
    },
  });
  for (const endpoint of ["text", "stream", "chat"]) {
    const script = ["big", "many"].map((toolName) => ({ toolCalls: [{ toolName, input: {} }] }));
    const { server } = await play([...script, "well"], { tools: { big, many } });
    const { text } = await server.post(`/agents/a/${endpoint}`, { input: [user("x")] });
    expect(text.match(/Tool (big|many) failed/g)).toHaveLength(2);
    expect(text).not.toContain("BigInt");
    expect(text).toContain("well");
  }
});

it("fails a tool whose JSON Schema cannot be used, not the process", async () => {
  const twice = {
    $id: "http://x/a",
    type: "object",
    properties: { a: { $id: "http://x/a" }, b: { $id: "http://x/a" } },
  };
  const broken = defineTool({ description: "", inputSchema: jsonSchema(twice as object), execute: () => 1 });
  const failures: unknown[] = [];
  const note = (error: unknown) => void failures.push(error);
  process.on("unhandledRejection", note);
  const { server } = await play([{ toolCalls: [{ toolName: "broken", input: {} }] }, "well"], { tools: { broken } });
  expect((await server.post("/agents/a/text", { input: "x" })).body.data.toolResults[0].error).toContain("Duplicate");
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", note);
  expect(failures).toEqual([]);
});

it("gives hooks a plain context object with the documented keys", async () => {
  let seen: object = {};
  const { server } = await play(["ok"], {
    hooks: { onStart: ({ context }: { context: object }) => void (seen = { ...context }) },
  });
  await server.post("/agents/a/text", { input: "x" });
  expect(Object.keys(seen)).toEqual(["operationId", "userId", "conversationId", "context", "signal", "logger"]);
});

it("tells onError of the agent that its step has timed out", async () => {
  const heard: string[] = [];
  const onError = ({ error }: { error: unknown }) => void heard.push((error as Error).message);
  const agent = defineAgent({ id: "a", instructions: "x", model: scriptedModel([never]), hooks: { onError } });
  const workflow = defineWorkflow({ id: "w" }).andAgent({ id: "s", agent, prompt: "hi", timeout: 50 });
  const server = await serve({ workflows: [workflow] });
  expect((await server.post("/workflows/w/execute", { input: {} })).status).toBe(500);
  await expect.poll(() => heard).toEqual(["Step s timed out after 50 ms"]);
});

it("fails a call with 500 if its instructions are not a string", async () => {
  const { server } = await play(["ok"], { instructions: () => undefined });
  const { status, body } = await server.post("/agents/a/text", { input: "x" });
  expect([status, body.error]).toEqual([500, "Failed to execute agent"]);
  expect(JSON.stringify(server.logs.map(({ data }) => String(data?.["error"])))).toContain(
    "instructions: expected a string",
  );
});
