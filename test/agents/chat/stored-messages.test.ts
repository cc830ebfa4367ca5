// Each of these changes makes a test of this file fail: deltas that are not joined; sources that are not sent; a continued message
// that is stored as a second one; a new `createdAt`.
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { Chat } from "@ai-sdk/react";
import type { ScriptedStep } from "agentserve/models";
import { DefaultChatTransport, dynamicTool, tool, validateUIMessages, type UIMessage } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { readMessages } from "../../../src/agents/messages/read-messages.ts";
import type { TestServer } from "../../harness/server.ts";
import { isLowestSdk } from "../lowest-sdk.ts";
import { callLocate, locate, open, user, weather } from "./chat-server.ts";

/** Reads a conversation. A page that reads it gets the same. */
const read = async (server: TestServer, conversationId: string) => {
  const messages = await readMessages(server.conversations, { agentId: "helper", conversationId }, { limit: 100 });
  const { body } = await server.get(`/agents/helper/conversations/${conversationId}`);
  expect(body.data.messages).toEqual(JSON.parse(JSON.stringify(messages)));
  await validateUIMessages({ messages: body.data.messages });
  return messages;
};

/** Removes the metadata, and fields that only the SDK of the client has if the server uses an older one. */
const toPlain = (messages: readonly UIMessage[]): unknown =>
  JSON.parse(
    JSON.stringify(
      messages.map((message) => ({
        ...message,
        metadata: undefined,
        parts: message.parts.map((part) =>
          isLowestSdk ? { ...part, rawInput: undefined, ...(part.type === "reasoning" && { id: undefined }) } : part,
        ),
      })),
    ),
  );

/** The conversation is what the client has. */
async function expectEqual(server: TestServer, chat: Chat<UIMessage>): Promise<void> {
  expect(chat.error).toBeUndefined();
  const stored = await read(server, chat.id);
  expect(toPlain(stored)).toEqual(toPlain(chat.messages));
}

const usage = {
  inputTokens: { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 2, text: 2, reasoning: 0 },
};
const finish = (unified: "stop" | "tool-calls" | "length"): LanguageModelV4StreamPart => ({
  type: "finish",
  finishReason: { unified, raw: unified },
  usage,
});
const ada = { own: { signature: "ada" } };

/** Two steps with every kind of part that a model sends. */
const rich: readonly LanguageModelV4StreamPart[][] = [
  [
    { type: "stream-start", warnings: [] },
    { type: "reasoning-start", id: "0" },
    { type: "reasoning-delta", id: "0", delta: "Where " },
    { type: "reasoning-delta", id: "0", delta: "first?" },
    { type: "reasoning-end", id: "0" },
    { type: "text-start", id: "1" },
    { type: "text-delta", id: "1", delta: "I " },
    { type: "text-delta", id: "1", delta: "look." },
    { type: "text-end", id: "1" },
    { type: "tool-input-start", id: "w1", toolName: "weather" },
    { type: "tool-input-delta", id: "w1", delta: '{"city":' },
    { type: "tool-input-delta", id: "w1", delta: '"Rome"}' },
    { type: "tool-input-end", id: "w1" },
    { type: "tool-call", toolCallId: "w1", toolName: "weather", input: '{"city":"Rome"}', providerMetadata: ada },
    { type: "tool-call", toolCallId: "b1", toolName: "breaks", input: "{}" },
    { type: "tool-call", toolCallId: "d1", toolName: "any", input: '{"a":[1]}' },
    { type: "tool-call", toolCallId: "s1", toolName: "steps", input: "{}" },
    { type: "tool-call", toolCallId: "i1", toolName: "weather", input: '{"town":1}' },
    { type: "tool-call", toolCallId: "u1", toolName: "unknown", input: "{}" },
    { type: "tool-call", toolCallId: "p1", toolName: "search", input: "{}", providerExecuted: true, dynamic: true },
    { type: "tool-result", toolCallId: "p1", toolName: "search", result: { hits: 1 }, dynamic: true },
    finish("tool-calls"),
  ],
  [
    { type: "stream-start", warnings: [] },
    { type: "source", sourceType: "url", id: "a", url: "https://example.com/a", title: "A" },
    { type: "source", sourceType: "document", id: "b", mediaType: "application/pdf", title: "B", filename: "b.pdf" },
    { type: "file", mediaType: "image/png", data: { type: "data", data: "iVBORw0KGgo=" } },
    { type: "text-start", id: "0" },
    { type: "text-delta", id: "0", delta: "Clear " },
    { type: "text-delta", id: "0", delta: "over Rome." },
    { type: "text-end", id: "0" },
    finish("stop"),
  ],
];
const tools = {
  weather,
  locate,
  breaks: tool({ inputSchema: z.object({}), execute: () => Promise.reject<string>(new Error("out of order")) }),
  any: dynamicTool({ inputSchema: z.unknown(), execute: async (input) => ({ got: input }) }),
  steps: tool({
    inputSchema: z.object({}),
    async *execute() {
      yield "one";
      yield "two";
    },
  }),
  pay: tool({ inputSchema: z.object({ amount: z.number() }), needsApproval: true, execute: () => "paid" }),
};
const callPay: ScriptedStep = { toolCalls: [{ toolName: "pay", input: { amount: 5 }, toolCallId: "p1" }] };
const approvalOf = ({ messages }: { messages: readonly UIMessage[] }): string =>
  (messages.at(-1)!.parts.find(({ type }) => type === "tool-pay") as any).approval.id;
const png = "data:image/png;base64,iVBORw0KGgo=";

describe("the stored messages of a conversation", () => {
  it("stored messages are those that the client of the AI SDK has: reasoning, tools, sources and files", async () => {
    const { server, chat } = await open([...rich, "Bye."], { tools });
    await chat.sendMessage({
      role: "user",
      parts: [
        { type: "text", text: "Weather?" },
        { type: "file", mediaType: "image/png", filename: "a.png", url: png },
        { type: "data-place", data: { x: 1 } },
      ],
    });
    await expectEqual(server, chat);
    const [, answer] = await read(server, chat.id);
    const types = answer!.parts.map(({ type }) => type);
    const calls = ["tool-weather", "tool-breaks", "dynamic-tool", "tool-steps", "dynamic-tool", "dynamic-tool"];
    expect(types.slice(0, 4)).toEqual(["step-start", "reasoning", "text", "tool-weather"]);
    expect(types).toEqual(expect.arrayContaining([...calls, "source-url", "source-document", "file"]));
    await chat.sendMessage({ text: "Thanks" });
    await expectEqual(server, chat);
  });

  it("stored messages are the same, whichever endpoint the answer came from", async () => {
    const script = Array.from({ length: 3 }, () => rich).flat();
    const { server, chat } = await open(script, { tools });
    await chat.sendMessage({ text: "Weather?" });
    const options = (conversationId: string) => ({ input: "Weather?", options: { conversationId } });
    await server.post("/agents/helper/text", options("text"));
    await server.post("/agents/helper/stream", options("stream"));
    // A call without a stream has no ids of its parts.
    const partsOf = async (id: string) =>
      (await read(server, id)).map(({ role, parts }) =>
        parts.map((part) => [role, JSON.parse(JSON.stringify({ ...part, id: undefined }))]),
      );
    const [streamed, text] = [await partsOf("stream"), await partsOf("text")];
    expect(streamed[1]).toEqual((await partsOf(chat.id))[1]);
    expect(text[1]).toEqual(streamed[1]);
    expect(text[0]).toEqual([["user", { type: "text", text: "Weather?" }]]);
  });

  it("stored messages have the input of a tool that the model did not finish, as the client has", async () => {
    const cut: LanguageModelV4StreamPart[] = [
      { type: "stream-start", warnings: [] },
      { type: "tool-input-start", id: "w1", toolName: "weather" },
      { type: "tool-input-delta", id: "w1", delta: '{"city":' },
      { type: "tool-input-delta", id: "w1", delta: '"Ro' },
      finish("length"),
    ];
    const { server, chat } = await open([cut], { tools });
    await chat.sendMessage({ text: "Weather?" });
    await expectEqual(server, chat);
    expect((await read(server, chat.id))[1]!.parts.at(-1)).toMatchObject({ state: "input-streaming" });
  });

  it("stored messages grow where the client's own tool is answered: one message, with the time of its begin", async () => {
    const again: ScriptedStep = { toolCalls: [{ toolName: "locate", input: {}, toolCallId: "l2" }] };
    const { server, chat } = await open([callLocate, again, "You moved.", "Bye."], { tools });
    await chat.sendMessage({ text: "Do I move?" });
    await expectEqual(server, chat);
    const [, first] = await read(server, chat.id);
    await chat.addToolOutput({ tool: "locate", toolCallId: "l1", output: { city: "Rome" } });
    await chat.sendMessage();
    await expectEqual(server, chat);
    await chat.addToolOutput({ state: "output-error", tool: "locate", toolCallId: "l2", errorText: "no GPS" });
    await chat.sendMessage();
    await expectEqual(server, chat);
    const [, last] = await read(server, chat.id);
    expect(last!.metadata!.createdAt).toBe(first!.metadata!.createdAt);
    expect(last!.metadata!.usage).toMatchObject({ inputTokens: 3, outputTokens: 2 });
    await chat.sendMessage({ text: "Thanks" });
    await expectEqual(server, chat);
  });

  it.each([
    ["approved", true],
    ["denied", false],
  ])("stored messages grow where a tool is %s", async (_, approved) => {
    const { server, chat } = await open([callPay, "Done.", "Bye."], { tools });
    await chat.sendMessage({ text: "Pay 5" });
    await expectEqual(server, chat);
    await chat.addToolApprovalResponse({ id: approvalOf(chat), approved, reason: "so be it" });
    await chat.sendMessage();
    await expectEqual(server, chat);
    const state = approved ? "output-available" : "output-denied";
    expect((await read(server, chat.id))[1]!.parts).toContainEqual(expect.objectContaining({ state }));
    await chat.sendMessage({ text: "Thanks" });
    await expectEqual(server, chat);
  });

  it("stored messages are kept where the SDK cannot build one: the result of a call that nobody made", async () => {
    const lost: LanguageModelV4StreamPart[] = [
      { type: "stream-start", warnings: [] },
      { type: "tool-result", toolCallId: "x9", toolName: "search", result: { hits: 1 } },
      { type: "text-start", id: "0" },
      { type: "text-delta", id: "0", delta: "Found." },
      { type: "text-end", id: "0" },
      finish("stop"),
    ];
    const { server } = await open([lost, "Bye."], { tools });
    const options = { conversationId: "c" };
    const { events } = await server.post("/agents/helper/stream", { input: "Search", options });
    expect(events.at(-1)).toMatchObject({ type: "finish" });
    const [, answer] = await read(server, "c");
    expect(answer!.parts).toEqual([{ type: "step-start" }, { type: "text", text: "Found.", state: "done" }]);
    const message = "An answer is stored without some details, because the AI SDK cannot build its message";
    expect(server.logs).toContainEqual(expect.objectContaining({ level: "warn", message }));
  });

  it("stored messages begin with the client's own history where nothing was stored, and continue its last message", async () => {
    const { server, api } = await open(["You are in Rome."], { tools });
    const part = { type: "tool-locate", toolCallId: "l1", state: "output-available", input: {}, output: "Rome" };
    const answered = { id: "a1", role: "assistant", parts: [{ type: "step-start" }, part] } as UIMessage;
    const chat = new Chat<UIMessage>({
      messages: [user("Hello"), { ...user("Hi."), role: "assistant" }, user("Where am I?"), answered],
      transport: new DefaultChatTransport({ api }),
    });
    await chat.sendMessage();
    await expectEqual(server, chat);
    expect(chat.messages.at(-1)!.id).toBe("a1");
  });

  it("stored messages are made from messages for a model: a call and its result are one message", async () => {
    const { server } = await open(["Mild.", "Rome."], { tools });
    const call = { type: "tool-call", toolCallId: "w1", toolName: "weather", input: { city: "Rome" } };
    const output = { type: "json", value: { sky: "clear" } };
    const input = [
      {
        role: "user",
        content: [
          { type: "text", text: "Look" },
          { type: "image", image: png },
        ],
      },
      { role: "assistant", content: [{ type: "text", text: "I look." }, call] },
      { role: "tool", content: [{ type: "tool-result", toolCallId: "w1", toolName: "weather", output }] },
      { role: "assistant", content: "Clear." },
      { role: "user", content: "And warm?" },
    ];
    await server.post("/agents/helper/text", { input, options: { conversationId: "c" } });
    const messages = await read(server, "c");
    expect(messages.map(({ role, parts }) => [role, ...parts.map(({ type }) => type)])).toEqual([
      ["user", "text", "file"],
      ["assistant", "step-start", "text", "tool-weather"],
      ["assistant", "step-start", "text"],
      ["user", "text"],
      ["assistant", "step-start", "text"],
    ]);
    expect(messages[0]!.parts[1]).toMatchObject({ type: "file", url: png });
    expect(messages[1]!.parts[2]).toMatchObject({ state: "output-available", output: { sky: "clear" } });
  });

  it("stored messages continue where results of the client's tools come as messages for a model", async () => {
    const { server, prompts } = await open([callLocate, "Rome."], { tools });
    const options = { conversationId: "c" };
    await server.post("/agents/helper/text", { input: "Where am I?", options });
    const output = { type: "text", value: "Rome" };
    const result = { type: "tool-result", toolCallId: "l1", toolName: "locate", output };
    await server.post("/agents/helper/text", { input: [{ role: "tool", content: [result] }], options });
    const messages = await read(server, "c");
    expect(messages).toHaveLength(2);
    expect(messages[1]!.parts).toMatchObject([
      { type: "step-start" },
      { type: "tool-locate", state: "output-available", output: "Rome" },
      { type: "step-start" },
      { type: "text", text: "Rome." },
    ]);
    expect(prompts()[1]).toEqual(["user: Where am I?", "assistant: [locate {}]", 'tool: [locate → "Rome"]']);
  });

  it.each(["object", "stream-object"])("stored messages have the JSON of an object as text: %s", async (endpoint) => {
    const { server } = await open(['{ "elements": [1,  2] }']);
    const schema = { type: "array", items: { type: "number" } };
    const { status } = await server.post(`/agents/helper/${endpoint}`, {
      input: "Count",
      schema,
      options: { conversationId: "c" },
    });
    expect(status).toBe(200);
    const [, answer] = await read(server, "c");
    expect(answer!.parts).toMatchObject([{ type: "step-start" }, { type: "text", text: "[1,2]" }]);
  });

  it("stored messages have times, and answers the tokens", async () => {
    const { server, chat } = await open([{ text: "Hello.", usage: { inputTokens: 5, outputTokens: 3 } }]);
    const before = Date.now();
    await chat.sendMessage({ text: "Hi" });
    const [asked, answer] = await read(server, chat.id);
    const times = [asked, answer].map((message) => Date.parse(message!.metadata!.createdAt!));
    const all = [before, ...times, Date.now()];
    expect(all).toEqual(all.toSorted((a, b) => a - b));
    expect(asked!.metadata).toEqual({ createdAt: expect.any(String) });
    expect(answer!.metadata!.usage).toMatchObject({ inputTokens: 5, outputTokens: 3, totalTokens: 8 });
  });
});
