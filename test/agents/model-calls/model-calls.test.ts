// Each of these changes makes a test of this file fail: calls that are kept in `start`; a prompt for the user of a conversation
// whom `authorize` does not let inspect; calls that outlive their conversation; a file with its data; a text that is not cut.
import { defineAgent, defineTool } from "agentserve";
import type { Authorize } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import { expect, it } from "vitest";
import * as v from "valibot";
import type { Config } from "../../../src/config/define.ts";
import { startTestServer, type Target, type TestServer } from "../../harness/server.ts";
import { createGates } from "../../harness/gates.ts";
import { eventually } from "../../harness/waiting.ts";
import { as, trusting } from "../../workflows/steps/world.ts";

const look = defineTool({
  description: "Looks up a street",
  inputSchema: v.object({ street: v.string() }),
  execute: ({ street }) => ({ street, exists: false }),
});
const call = { toolCalls: [{ toolName: "look", input: { street: "Elm" } }] } as never;

async function open(script: readonly ScriptedStep[], more: Config = {}, target: Target = "dev"): Promise<TestServer> {
  const model = scriptedModel(script);
  const helper = defineAgent({ id: "helper", instructions: "Be kind.", model, tools: { look }, maxRetries: 0 });
  return startTestServer(target, { config: { agents: [helper], ...more } });
}

const at = (id: string) => `/agents/helper/conversations/${id}`;
const say = (server: TestServer, input: unknown, conversationId = "c", user = "ada") =>
  server.post("/agents/helper/text", { input, options: { conversationId } }, as(user));

/** The id of the last answer of a conversation. */
async function answerOf(server: TestServer, id = "c", user = "ada"): Promise<string> {
  const { messages } = (await server.get(at(id), as(user))).body.data;
  return messages.at(-1).id;
}
async function callsOf(server: TestServer, id = "c", user = "ada", more = "") {
  return server.get(`${at(id)}/turns/${await answerOf(server, id, user)}/steps${more}`, as(user));
}

it("shows each model call of a turn: its prompt as the model got it, and its answer with joined parts", async () => {
  const server = await open([call, "No such street.", "Hello again."]);
  expect((await say(server, "Is there an Elm street?")).status).toBe(200);
  const { status, body } = await callsOf(server);
  expect(status).toBe(200);
  expect(body.data.nextCursor).toBeNull();
  const [first, second] = body.data.items;
  expect(body.data.items).toHaveLength(2);
  const usage = { inputTokens: expect.any(Number), outputTokens: expect.any(Number), totalTokens: expect.any(Number) };
  expect(first).toMatchObject({
    index: 0,
    model: { provider: "agentserve", modelId: "scripted" },
    instructions: "Be kind.",
    prompt: [{ role: "user", content: [{ type: "text", text: "Is there an Elm street?" }] }],
    tools: ["look"],
    parts: [{ type: "tool-call", toolName: "look", input: { street: "Elm" } }],
    finishReason: "tool-calls",
    usage,
  });
  expect(second).toMatchObject({
    index: 1,
    parts: [{ type: "text", text: "No such street." }],
    finishReason: "stop",
    usage,
  });
  expect(second.prompt.map(({ role }: any) => role)).toEqual(["user", "assistant", "tool"]);
  expect(second.prompt[2].content[0]).toMatchObject({ type: "tool-result", output: { value: { exists: false } } });
  expect(second).not.toHaveProperty("error");
  for (const { startAt, endAt, ms } of [first, second]) {
    expect(ms).toBeGreaterThanOrEqual(0);
    expect(endAt >= startAt).toBe(true);
  }
  // The next turn has calls of its own.
  await say(server, "Hello");
  const next = (await callsOf(server)).body.data.items;
  expect(next).toMatchObject([{ index: 0, parts: [{ text: "Hello again." }] }]);
  expect(next[0].prompt).toHaveLength(5);
});

it("shows a model call that runs, and one that has failed, without secrets", async () => {
  const gates = createGates();
  async function* slowly(): AsyncGenerator<any> {
    yield { type: "stream-start", warnings: [] };
    yield { type: "text-start", id: "1" };
    for (const delta of ["One ", "two "]) yield { type: "text-delta", id: "1", delta };
    await gates.pass("open");
    yield { type: "error", error: new Error("Overloaded, key=sk-abcdef123456") };
  }
  const server = await open([() => slowly(), () => slowly()]);
  const answering = say(server, "Count");
  const steps = await eventually(async () => {
    const { running } = (await server.get(at("c"), as("ada"))).body.data;
    const found = (await server.get(`${at("c")}/turns/${running.messageId}/steps`, as("ada"))).body;
    expect(found.data.items[0].parts).toEqual([{ type: "text", text: "One two " }]);
    return { found, id: running.messageId };
  });
  expect(steps.found.data.items[0]).toMatchObject({ endAt: null, ms: null, finishReason: null, usage: null });
  gates.open("open");
  expect((await answering).status).toBe(502);
  const failed = (await server.get(`${at("c")}/turns/${steps.id}/steps`, as("ada"))).body.data.items;
  expect(failed).toMatchObject([{ parts: [{ text: "One two " }], finishReason: null, error: expect.any(String) }]);
  expect(failed[0].endAt).not.toBeNull();
  expect(failed[0].error).toContain("Overloaded");
  expect(failed[0].error).not.toContain("abcdef");
});

it("keeps no model calls in `start`: the turn is a 404, as an unknown one is in `dev`", async () => {
  const server = await open(["Hello."], { auth: trusting }, "start");
  await say(server, "Hi");
  const id = await answerOf(server);
  expect(await server.get(`${at("c")}/turns/${id}/steps`, as("ada"))).toMatchObject({
    status: 404,
    body: { error: `The model calls of turn ${id} are not kept` },
  });
  const dev = await open(["Hello."], { auth: trusting });
  await say(dev, "Hi");
  expect((await dev.get(`${at("c")}/turns/unknown/steps`, as("ada"))).status).toBe(404);
  expect((await dev.get(`${at("other")}/turns/unknown/steps`, as("ada"))).body.error).toBe(
    "Conversation other not found",
  );
});

it("model calls are for the user of the conversation; prompts and instructions are for those who may inspect as well", async () => {
  const allowed = new Set(["conversation.read", "agent.call"]);
  const asked: unknown[] = [];
  const authorize: Authorize = ({ action, agentId, conversation }) => {
    if (action === "execution.inspect") asked.push([agentId, conversation?.conversationId]);
    return allowed.has(action);
  };
  const server = await open(["Hello."], { auth: trusting, authorize });
  await say(server, "Hi");
  const id = await answerOf(server);
  const read = (user: string) => server.get(`${at("c")}/turns/${id}/steps`, as(user));
  expect(await read("bob")).toMatchObject({ status: 404, body: { error: "Conversation c not found" } });
  expect((await server.get(`${at("c")}/turns/${id}/steps`)).status).toBe(401);
  const [item] = (await read("ada")).body.data.items;
  expect(item.parts).toEqual([{ type: "text", text: "Hello." }]);
  expect(item).not.toHaveProperty("prompt");
  expect(item).not.toHaveProperty("instructions");
  expect(asked).toEqual([["helper", "c"]]);
  allowed.add("execution.inspect");
  expect((await read("ada")).body.data.items[0]).toMatchObject({ instructions: "Be kind.", prompt: [{}] });
  allowed.delete("conversation.read");
  expect((await read("ada")).status).toBe(403);
});

it("removes model calls with their conversation, also those of a turn that runs", async () => {
  const gates = createGates();
  async function* slowly(): AsyncGenerator<any> {
    yield { type: "text-start", id: "1" };
    yield { type: "text-delta", id: "1", delta: "One" };
    await gates.pass("open");
  }
  const server = await open(["Hello.", () => slowly(), "New."], { auth: trusting });
  await say(server, "Hi");
  const old = await answerOf(server);
  const answering = say(server, "Count");
  const running = await eventually(async () => {
    const { data } = (await server.get(at("c"), as("ada"))).body;
    expect(data.running).not.toBeNull();
    expect((await server.get(`${at("c")}/turns/${data.running.messageId}/steps`, as("ada"))).status).toBe(200);
    return data.running.messageId as string;
  });
  expect((await server.request(at("c"), { method: "DELETE", ...as("ada") })).status).toBe(200);
  gates.open("open");
  expect((await answering).status).toBe(409);
  // Another conversation with the same id knows nothing of them.
  await say(server, "Hi");
  for (const id of [old, running])
    expect((await server.get(`${at("c")}/turns/${id}/steps`, as("ada"))).status).toBe(404);
  expect((await callsOf(server)).body.data.items).toMatchObject([{ parts: [{ text: "New." }] }]);
});

it("cuts long texts of model calls, and shows the size of long files in place of their data", async () => {
  const long = "ä".repeat(50_000);
  const server = await open([long, { text: "Two" }], { auth: trusting });
  const file = (bytes: number) => ({
    type: "file",
    mediaType: "image/png",
    url: `data:image/png;base64,${Buffer.alloc(bytes, 1).toString("base64")}`,
  });
  const parts = [{ type: "text", text: long }, file(20_000), file(100)];
  const message = { id: "m1", role: "user", parts };
  const answer = await server.post("/agents/helper/chat", { id: "c", messages: [message] }, as("ada"));
  expect(answer.status).toBe(200);
  const [item] = (await callsOf(server)).body.data.items;
  const [text, large, small] = item.prompt[0].content;
  expect(text).toMatchObject({ type: "text", truncated: true });
  expect(Buffer.byteLength(text.text)).toBe(65_536);
  expect(large).toEqual({ type: "file", mediaType: "image/png", bytes: 20_000 });
  expect(JSON.stringify(small)).toContain(Buffer.alloc(100, 1).toString("base64"));
  expect(item.parts).toMatchObject([{ type: "text", truncated: true }]);
  expect(Buffer.byteLength(item.parts[0].text)).toBe(65_536);
});

it("lists model calls in pages of 4 MiB, and leaves out the oldest messages of a longer prompt", async () => {
  const server = await open([call, "Done."], { auth: trusting });
  const text = "x".repeat(60_000);
  const content = Array.from({ length: 20 }, () => ({ type: "text", text }));
  const messages = Array.from({ length: 7 }, (_, index) => ({ role: index % 2 === 0 ? "user" : "assistant", content }));
  expect((await say(server, messages)).status).toBe(200);
  const { data } = (await callsOf(server)).body;
  const [item] = data.items;
  expect(data.items).toHaveLength(1);
  const rest = (await callsOf(server, "c", "ada", `?cursor=${data.nextCursor}`)).body.data;
  expect(rest).toMatchObject({ items: [{ index: 1, parts: [{ text: "Done." }] }], nextCursor: null });
  expect(item.prompt.length + item.omittedMessages).toBe(7);
  expect(item.omittedMessages).toBeGreaterThan(2);
  expect(item.prompt.at(-1).content).toHaveLength(20);
  expect((await callsOf(server, "c", "ada", "?cursor=x")).status).toBe(400);
});
