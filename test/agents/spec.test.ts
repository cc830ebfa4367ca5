import { jsonSchema, tool } from "ai";
import * as v from "valibot";
import { expect, it } from "vitest";
import { z } from "zod";
import { defineAgent, defineTool, ServeError } from "agentserve";
import { echoModel, scriptedModel, type ScriptedStep } from "agentserve/models";
import { describeServer, startTestServer } from "../harness/server.ts";

const instructions = "You are KIND-SENTINEL.";
const weather = defineTool({
  description: "Tells the weather of a city",
  inputSchema: v.object({ city: v.pipe(v.string(), v.nonEmpty()) }),
  execute: ({ city }) => ({ city, sky: "blue" }),
});

/** An agent that plays this script, on a server of its own. */
async function play(script: readonly ScriptedStep[], more: object = {}) {
  const model = scriptedModel(script);
  const agent = defineAgent({ id: "a", instructions, model, maxRetries: 0, tools: { weather }, ...more });
  const server = await startTestServer("in process", { config: { agents: [agent] } });
  return { model, server };
}
const user = (text: string) => ({ role: "user", content: [{ type: "text", text }] });
const call = (city: unknown, toolName = "weather") => ({
  toolCalls: [{ toolName, toolCallId: "c1", input: { city } }],
});

const toTool = (execute: () => unknown) => defineTool({ description: "", inputSchema: v.object({}), execute });

const support = defineAgent({
  id: "support",
  name: "Support",
  description: "Helps",
  instructions,
  model: echoModel(),
  tools: {
    weather,
    clock: defineTool({ description: "Time", inputSchema: z.object({ zone: z.string() }), execute: () => "noon" }),
    sdk: tool({ description: "An AI SDK tool", inputSchema: z.object({ n: z.number() }), execute: ({ n }) => n + 1 }),
    plain: defineTool({
      description: "JSON Schema",
      inputSchema: jsonSchema<{ n: number }>({ type: "object", properties: { n: { type: "number" } } }),
      execute: ({ n }) => n,
    }),
  },
  maxSteps: 3,
});

describeServer("agents", { config: { agents: [support, defineAgent({ ...bare(), id: "bare" })] } }, (server) => {
  it("lists agents with their tools and models", async () => {
    const { body } = await server.get("/agents");
    expect(body.data).toEqual([
      {
        id: "support",
        name: "Support",
        description: "Helps",
        model: "agentserve/echo",
        status: "idle",
        tools: [
          { name: "weather", description: "Tells the weather of a city" },
          { name: "clock", description: "Time" },
          { name: "sdk", description: "An AI SDK tool" },
          { name: "plain", description: "JSON Schema" },
        ],
      },
      { id: "bare", name: "bare", description: "", model: "agentserve/echo", status: "idle", tools: [] },
    ]);
  });

  it("shows agents with the schemas of their tools, and with their instructions only in dev", async () => {
    const { data } = (await server.get("/agents/support")).body;
    expect(data).toMatchObject({ id: "support", maxSteps: 3, memory: true, status: "idle" });
    expect(data.tools[0].inputSchema).toMatchObject({ type: "object", required: ["city"] });
    for (const shown of data.tools) expect(shown.inputSchema).toMatchObject({ type: "object" });
    expect(data.instructions).toBe(server.target === "dev" ? instructions : undefined);
  });

  it("answers 404 for an unknown agent on every endpoint", async () => {
    const error = { success: false, error: "Agent nobody not found" };
    expect(await server.get("/agents/nobody")).toMatchObject({ status: 404, body: error });
    for (const what of ["text", "object", "stream", "stream-object", "chat"]) {
      const body = { input: [user("hi")], schema: { type: "object" } };
      expect(await server.post(`/agents/nobody/${what}`, body)).toMatchObject({ status: 404, body: error });
    }
  });

  it("answers POST /agents/:id/text with text and usage", async () => {
    const { status, body } = await server.post("/agents/support/text", { input: "hello there" });
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        success: true,
        data: {
          text: "hello there",
          finishReason: "stop",
          usage: { inputTokens: 5, outputTokens: 2, totalTokens: 7, reasoningTokens: 0, cachedInputTokens: 0 },
          toolCalls: [],
          toolResults: [],
          steps: 1,
        },
      },
    });
  });

  it("echoModel calls the tool that the prompt names", async () => {
    const { data } = (await server.post("/agents/support/text", { input: "What is the weather in Berlin?" })).body;
    const made = { toolCallId: expect.any(String), toolName: "weather", input: { city: "Berlin" } };
    expect(data).toMatchObject({ steps: 2, finishReason: "stop", text: 'weather: {"city":"Berlin","sky":"blue"}' });
    expect(data.toolCalls).toEqual([made]);
    expect(data.toolResults).toEqual([{ ...made, output: { city: "Berlin", sky: "blue" } }]);
  });

  it("object and stream-object fill the schema of a client", async () => {
    const schema = {
      type: "object",
      properties: { title: { type: "string" }, n: { type: "integer" } },
      required: ["n"],
    };
    const input = "seven 7 words";
    const whole = { title: input, n: 7 };
    expect((await server.post("/agents/support/object", { input, schema })).body).toEqual({
      success: true,
      data: whole,
    });
    const { events } = await server.post("/agents/support/stream-object", { input, schema });
    const parts = events.filter(({ type }) => type === "partial-object").map(({ object }) => object);
    expect(parts.length).toBeGreaterThan(1);
    expect(parts[0]).toEqual({ title: "seven " });
    expect(events.at(-1)).toMatchObject({
      type: "object",
      object: whole,
      finishReason: "stop",
      usage: { outputTokens: 3 },
    });
  });

  it("POST /agents/:id/stream sends a text word by word", async () => {
    const { events } = await server.post("/agents/support/stream", { input: "one two three" });
    expect(events.filter(({ type }) => type === "text-delta").map(({ delta }) => delta)).toEqual([
      "one ",
      "two ",
      "three",
    ]);
    expect(events.map(({ type }) => type)).toEqual([
      "start",
      "start-step",
      "text-start",
      ...Array.from({ length: 3 }, () => "text-delta"),
      "text-end",
      "finish-step",
      "finish",
    ]);
  });

  it("POST /agents/:id/chat takes its own body and that of useChat", async () => {
    const message = { id: "m1", role: "user", parts: [{ type: "text", text: "good day" }] };
    for (const body of [{ input: [message] }, { id: "c", messages: [message], trigger: "submit-message" }]) {
      const { headers, events, text } = await server.post("/agents/bare/chat", body);
      expect(headers.get("x-vercel-ai-ui-message-stream")).toBe("v1");
      expect(events.filter(({ type }) => type === "text-delta").map(({ delta }) => delta)).toEqual(["good ", "day"]);
      expect(events[0]).toEqual({ type: "start", messageId: expect.any(String) });
      expect(events.at(-1)).toMatchObject({ type: "finish" });
      expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    }
  });

  it("POST /agents/:id/chat refuses a body without messages, and messages without parts or with the role system", async () => {
    const parts = [{ type: "text", text: "obey" }];
    for (const more of [
      {},
      { messages: [] },
      { messages: [{ id: "s", role: "system", parts }] },
      { messages: [{ id: "u", role: "user" }] },
    ]) {
      const { status, body } = await server.post("/agents/bare/chat", { id: "c", ...more });
      expect([status, body.error]).toEqual([400, expect.stringMatching(/^Invalid request body: /)]);
    }
  });

  const wrong: [string, object, string][] = [
    ["no input", {}, "input"],
    ["input of another type", { input: 5 }, "input: expected a string or an array of messages"],
    ["no message", { input: [] }, "input: expected at least one message"],
    ["what is no message", { input: ["hi"] }, "input"],
    ["a message without a role", { input: [{ content: "hi" }] }, "input.0.role: expected user, assistant or tool"],
    [
      "a system message",
      { input: [{ role: "system", content: "obey" }] },
      "input.0.role: system messages are not accepted",
    ],
    ["a system message in parts", { input: [user("a"), { role: "system", parts: [] }] }, "input.1.role: system"],
    ["content of no known kind", { input: [{ role: "user", content: [{ type: "noise" }] }] }, "input.0.content.0: "],
    ["parts of no known kind", { input: [{ role: "user", parts: [{ type: 5 }] }] }, "input.0.parts.0: "],
    ["a setting of another type", { input: "x", options: { temperature: "hot" } }, "options.temperature"],
    ["no step at all", { input: "x", options: { maxSteps: 0 } }, "options.maxSteps: expected at least 1"],
    [
      "an empty conversation id",
      { input: "x", options: { conversationId: "" } },
      "options.conversationId: expected an id",
    ],
  ];
  for (const [what, body, error] of wrong) {
    it(`POST /agents/:id/text refuses ${what}`, async () => {
      const answer = await server.post("/agents/support/text", body);
      expect(answer.status).toBe(400);
      expect(answer.body.error).toMatch(/^Invalid request body: /);
      expect(answer.body.error).toContain(error);
    });
  }
});

function bare() {
  return { id: "bare", instructions, model: echoModel() };
}

for (const endpoint of ["text", "stream", "chat", "object", "stream-object"]) {
  it(`${endpoint} gives the model the instructions, the messages and the settings`, async () => {
    const { server, model } = await play(["{}"], { temperature: 0.1, topK: 5, providerOptions: { x: { a: 1 } } });
    const settings = {
      temperature: 0.9,
      maxOutputTokens: 7,
      topP: 0.5,
      presencePenalty: 0.1,
      frequencyPenalty: 0.2,
      seed: 3,
      stopSequences: ["END"],
      providerOptions: { y: { b: 2 } },
    };
    const { status } = await server.post(`/agents/a/${endpoint}`, {
      input: [{ role: "user", content: "first" }, { role: "assistant", content: "second" }, user("third")],
      options: settings,
      ...(endpoint.endsWith("object") && { schema: { type: "object" } }),
    });
    expect(status).toBe(200);
    expect(model.calls).toHaveLength(1);
    expect(model.calls[0]).toMatchObject({ ...settings, topK: 5, providerOptions: { x: { a: 1 }, y: { b: 2 } } });
    expect(model.calls[0]!.prompt).toMatchObject([
      { role: "system", content: instructions },
      user("first"),
      { role: "assistant", content: [{ type: "text", text: "second" }] },
      user("third"),
    ]);
  });
}

it("calls instructions that are a function with the context of the call", async () => {
  const { server, model } = await play(["hi"], {
    instructions: async ({ userId, conversationId, context }: any) =>
      `${userId} ${conversationId} ${context.get("plan")} ${context.get("userId")}`,
  });
  const options = { userId: "ada", conversationId: "c1", context: { plan: "pro" } };
  await server.post("/agents/a/text", { input: "x", options });
  expect(model.calls[0]!.prompt[0]).toEqual({ role: "system", content: "ada c1 pro ada" });
});

it("asks the model no more often than the agent says, and less where the caller wishes", async () => {
  const script = Array.from({ length: 9 }, () => call("Rome"));
  for (const [wanted, made] of [
    [undefined, 3],
    [2, 2],
    [99, 3],
  ]) {
    const { server, model } = await play(script, { maxSteps: 3 });
    const { data } = (await server.post("/agents/a/text", { input: "x", options: { maxSteps: wanted } })).body;
    expect([model.calls.length, data.steps, data.finishReason]).toEqual([made, made, "tool-calls"]);
  }
});

it("checks what the model sends to a tool, and tells it what was wrong", async () => {
  const ran: unknown[] = [];
  const inputs = [
    defineTool({ description: "", inputSchema: v.object({ city: v.string() }), execute: (input) => ran.push(input) }),
    defineTool({ description: "", inputSchema: z.object({ city: z.string() }), execute: (input) => ran.push(input) }),
    ...[jsonSchema({ type: "object", properties: { city: { type: "string" } }, required: ["city"] })].flatMap(
      (inputSchema) => [
        defineTool({ description: "", inputSchema, execute: (input) => ran.push(input) }),
        tool({ inputSchema, execute: (input) => ran.push(input) }),
      ],
    ),
  ];
  for (const one of inputs) {
    const { server, model } = await play([call(5), call("Rome"), "done"], { tools: { weather: one } });
    const { data } = (await server.post("/agents/a/text", { input: "x" })).body;
    expect(data.toolResults[0].error).toContain("Invalid input for tool weather");
    expect(model.calls[1]!.prompt.at(-1)).toMatchObject({
      role: "tool",
      content: [{ output: { type: "error-text" } }],
    });
    expect(data).toMatchObject({ text: "done", steps: 3 });
    expect(ran.splice(0)).toEqual([{ city: "Rome" }]);
  }
});

it("reports a failed tool to the model and in the stream, and continues", async () => {
  const outputSchema = v.object({ n: v.number() });
  const tools = {
    throws: toTool(() => Promise.reject(new Error("no luck"))),
    refuses: toTool(() => Promise.reject(new ServeError(418, "teapot"))),
    lies: defineTool({ ...toTool(() => {}), outputSchema, execute: () => 1 as never }),
    big: toTool(() => 10n),
  };
  for (const [name, message] of [
    ["throws", "Tool throws failed"],
    ["refuses", "teapot"],
    ["lies", "Tool lies failed"],
    ["big", "Tool big failed"],
    ["unknown", "unavailable tool 'unknown'"],
  ]) {
    const script = [{ toolCalls: [{ toolName: name!, toolCallId: "c1", input: {} }] }, "well"];
    const one = await play(script, { tools });
    const { status, body } = await one.server.post("/agents/a/text", { input: "x" });
    expect(status).toBe(200);
    expect(body.data).toMatchObject({
      text: "well",
      toolResults: [{ toolName: name, error: expect.stringContaining(message!) }],
    });
    expect(JSON.stringify(one.model.calls[1]!.prompt.at(-1))).toContain(message!);
    const other = await play(script, { tools });
    const { events } = await other.server.post("/agents/a/stream", { input: "x" });
    const { error } = events.find(({ type }) => type === "tool-error");
    expect(error).toContain(message!);
    expect(events.at(-1).type).toBe("finish");
  }
});

it("gives tools the context of the call", async () => {
  const seen: any[] = [];
  const spy = defineTool({
    description: "",
    inputSchema: v.object({}),
    execute: (_, { context, signal, toolCallId }) => {
      seen.push([context.userId, context.conversationId, context.context.get("k"), signal.aborted, toolCallId]);
      return new Date(0);
    },
  });
  const { server } = await play([{ toolCalls: [{ toolName: "spy", toolCallId: "c9", input: {} }] }, "ok"], {
    tools: { spy },
  });
  const options = { userId: "ada", conversationId: "c", context: { k: [1] } };
  const { data } = (await server.post("/agents/a/text", { input: "x", options })).body;
  expect(seen).toEqual([["ada", "c", [1], false, "c9"]]);
  expect(data.toolResults[0].output).toBe("1970-01-01T00:00:00.000Z");
});

it("fetches no URL that a client sends", async () => {
  const image = (url: string) => ({ role: "user", parts: [{ type: "file", mediaType: "image/png", url }] });
  for (const endpoint of ["text", "stream", "chat"]) {
    const { server, model } = await play(["seen", "seen"]);
    for (const url of ["http://127.0.0.1:1/x.png", "https://example.com/x.png"]) {
      const { status, body } = await server.post(`/agents/a/${endpoint}`, { input: [image(url)] });
      expect([status, body.error]).toEqual([400, expect.stringContaining("send a data: URL")]);
    }
    expect(model.calls).toHaveLength(0);
    const data = "data:image/png;base64,iVBORw0KGgo=";
    expect((await server.post(`/agents/a/${endpoint}`, { input: [image(data)] })).status).toBe(200);
    expect(JSON.stringify(model.calls[0]!.prompt)).toContain("iVBORw0KGgo=");
  }
  const model = { ...scriptedModel(["seen"]), supportedUrls: { "image/*": [/^https:\/\/images\.example\//] } };
  const { server } = await play([], { model });
  expect((await server.post("/agents/a/text", { input: [image("https://images.example/a.png")] })).status).toBe(200);
  expect((await server.post("/agents/a/text", { input: [image("https://other.example/a.png")] })).status).toBe(400);
});

it("answers 400 for settings that the AI SDK refuses", async () => {
  const { server, model } = await play(["x"]);
  const { status, body } = await server.post("/agents/a/text", { input: "x", options: { maxOutputTokens: -1 } });
  expect([status, body.error]).toEqual([400, expect.stringMatching(/^Invalid request: .*maxOutputTokens/)]);
  expect(model.calls).toHaveLength(0);
});

it("shows an agent with the status running while it answers", async () => {
  const answering = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const { server } = await play([
    async () => {
      asked.resolve();
      await answering.promise;
      return "done";
    },
  ]);
  const answer = server.post("/agents/a/text", { input: "x" });
  await asked.promise;
  expect((await server.get("/agents")).body.data[0].status).toBe("running");
  expect((await server.get("/agents/a")).body.data.status).toBe("running");
  answering.resolve();
  await answer;
  expect((await server.get("/agents/a")).body.data.status).toBe("idle");
});

for (const endpoint of ["text", "stream", "chat"]) {
  it(`frees the conversation when a client leaves ${endpoint} while a tool hangs`, async () => {
    const called = Promise.withResolvers<void>();
    const tools = { hang: toTool(() => (called.resolve(), new Promise<never>(() => {}))) };
    const { server, model } = await play([{ toolCalls: [{ toolName: "hang", input: {} }] }, "next"], { tools });
    const leaving = new AbortController();
    const options = { conversationId: "c", onDisconnect: "abort" };
    const left = server.send(`/agents/a/${endpoint}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ input: [user("x")], options }),
      signal: leaving.signal,
    });
    await called.promise;
    leaving.abort();
    void left.then((response) => response.body?.cancel()).catch(() => {});
    const { status } = await server.post("/agents/a/text", { input: "y", options });
    expect([status, model.calls[1]!.prompt.length]).toEqual([200, 3]);
  });
}
