import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { defineAgent, type Config } from "agentserve";
import { scriptedModel, type ScriptedModel } from "agentserve/models";
import { DefaultChatTransport, readUIMessageStream, tool, type ToolSet, type UIMessage } from "ai";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { readMessages } from "../../../src/agents/messages/read-messages.ts";
import { createGates } from "../../harness/gates.ts";
import { startTestServer, type Target, type TestServer } from "../../harness/server.ts";
import { eventually, until } from "../../harness/waiting.ts";

const mebibyte = 1_048_576;
const photoBytes = 3_000_000;

interface Opened {
  readonly server: TestServer;
  readonly model: ScriptedModel;
}

async function open(
  target: Target,
  config: Config = {},
  script: Parameters<typeof scriptedModel>[0] = many,
  tools: ToolSet = {},
) {
  const model = scriptedModel(script);
  const agent = defineAgent({ id: "a", instructions: "x", model, tools });
  const server = await startTestServer(target, { config: { agents: [agent], ...config } });
  return { server, model } satisfies Opened;
}
const many = Array.from({ length: 20 }, () => "ok");

const photo = (): string => randomBytes(photoBytes).toString("base64");
const toMessage = (base64: string, n: number): UIMessage => ({
  id: `photo ${n}`,
  role: "user",
  parts: [
    { type: "file", mediaType: "image/jpeg", url: `data:image/jpeg;base64,${base64}` },
    { type: "text", text: `What is on photo ${n}?` },
  ],
});

/** The files that the model was given in its last call, as base64. */
function filesOf({ calls }: ScriptedModel): string[] {
  const parts = calls
    .at(-1)!
    .prompt.flatMap(({ content }): readonly { type: string; data?: unknown }[] =>
      typeof content === "string" ? [] : content,
    );
  return parts.flatMap((part) => (part.type === "file" ? [toBase64(part.data)] : []));
}
function toBase64(data: unknown): string {
  const { data: inner } = data as { data: string | Uint8Array };
  return typeof inner === "string" ? inner : Buffer.from(inner).toString("base64");
}

/** Sends messages with the AI SDK's own transport. Returns the answer. */
async function send(transport: DefaultChatTransport<UIMessage>, messages: UIMessage[]): Promise<UIMessage> {
  const stream = await transport.sendMessages({
    chatId: "c1",
    messages,
    trigger: "submit-message",
    messageId: undefined,
    abortSignal: undefined,
  });
  let answer: UIMessage | undefined;
  for await (const message of readUIMessageStream({ stream })) answer = message;
  return answer!;
}

describe("three photos of 3 MB in one chat", () => {
  const bodies: number[] = [];
  const fetchOf =
    ({ server }: Opened): typeof fetch =>
    async (_, init) => {
      bodies.push(String(init!.body).length);
      const response = await server.send("/agents/a/chat", init as RequestInit);
      expect(response.status).toBe(200);
      return response;
    };

  async function chat(opened: Opened, transport: DefaultChatTransport<UIMessage>): Promise<void> {
    const photos: string[] = [];
    const messages: UIMessage[] = [];
    for (let n = 1; n <= 3; n++) {
      photos.push(photo());
      messages.push(toMessage(photos.at(-1)!, n));
      messages.push(await send(transport, messages));
      expect(filesOf(opened.model).map((file, index) => file === photos[index])).toEqual(photos.map(() => true));
    }
    messages.push({ id: "last", role: "user", parts: [{ type: "text", text: "Compare them." }] });
    await send(transport, messages);
    expect(filesOf(opened.model)).toHaveLength(3);
    expect(opened.model.calls).toHaveLength(4);
    expect(opened.server.logs.filter(({ level }) => level === "warn")).toEqual([]);
    expect(await readUrls(opened)).toEqual(photos.map((base64) => toMessage(base64, 0).parts[0]).map(urlOf));
  }

  /** The files of the stored conversation, read in pages: each has one message at least, and 8 MiB at most. */
  async function readUrls({ server }: Opened): Promise<string[]> {
    const urls: string[] = [];
    const key = { agentId: "a", conversationId: "c1" };
    for (let before: string | undefined; ;) {
      const page = await readMessages(server.conversations, key, { before, limit: 100 });
      if (page.length === 0) return urls;
      expect(JSON.stringify(page).length).toBeLessThan(8 * mebibyte);
      urls.unshift(...page.flatMap(({ parts }) => parts.filter(({ type }) => type === "file").map(urlOf)));
      before = page[0]!.id;
    }
  }
  const urlOf = (part: UIMessage["parts"][number] | undefined): string => (part?.type === "file" ? part.url : "");

  it("three photos reach the model if the client sends the whole chat each time", async () => {
    const opened = await open("start");
    bodies.length = 0;
    await chat(opened, new DefaultChatTransport({ fetch: fetchOf(opened) }));
    expect(bodies[2]).toBeGreaterThan(3 * photoBytes);
  });

  it("three photos reach the model if the client sends only the last message", async () => {
    const opened = await open("start");
    bodies.length = 0;
    const transport = new DefaultChatTransport<UIMessage>({
      fetch: fetchOf(opened),
      prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
        body: { id, messages: messages.slice(-1), trigger, messageId },
      }),
    });
    await chat(opened, transport);
    expect(Math.max(...bodies)).toBeLessThan(1.5 * photoBytes);
  });

  // Each message is stored twice: 24 MB, of 30 MB that Restate takes.
  it("three photos of one message reach the model and are stored", async () => {
    const opened = await open("start");
    const files = Array.from({ length: 3 }, () => toMessage(photo(), 0).parts[0]!);
    const message: UIMessage = { id: "all", role: "user", parts: files };
    await send(new DefaultChatTransport({ fetch: fetchOf(opened) }), [message]);
    expect(filesOf(opened.model)).toHaveLength(3);
    const key = { agentId: "a", conversationId: "c1" };
    const pageOf = (before?: string) => readMessages(opened.server.conversations, key, { before, limit: 100 });
    const [answer, ...others] = await pageOf(); // a page has 8 MiB at most, or one message
    expect([answer!.role, others]).toEqual(["assistant", []]);
    const [question] = await pageOf(answer!.id);
    expect(question!.parts.map(urlOf)).toEqual(files.map(urlOf));
  });
});

/** The limits of a small server: the same rules at a thousandth of the size. */
const limits = { bodyBytes: 100_000, chatBodyBytes: 1_000_000 };
const text = (bytes: number) => ({ input: "x".repeat(bytes - '{"input":""}'.length) });

describe("limits.chatBodyBytes", () => {
  it("limits.chatBodyBytes bounds the bodies of text, stream and chat, and no others", async () => {
    const { server } = await open("start", { server: { limits } });
    for (const [path, bytes, status] of [
      ["text", 1_000_000, 200],
      ["text", 1_000_001, 413],
      ["stream", 1_000_000, 200],
      ["stream", 1_000_001, 413],
      ["object", 100_001, 413],
      ["stream-object", 100_001, 413],
    ] as const) {
      expect([path, (await server.post(`/agents/a/${path}`, text(bytes))).status]).toEqual([path, status]);
    }
    const message = { role: "user", content: "x".repeat(900_000) };
    expect((await server.post("/agents/a/chat", { input: [message] })).status).toBe(200);
    expect((await server.post("/agents/a/chat", { input: [message, message] })).status).toBe(413);
    expect((await server.post("/agents/a/text", { input: "and the connection is usable" })).status).toBe(200);
  });

  it("limits.chatBodyBytes applies inside the host's middleware as well, with cors: false", async () => {
    const { server } = await open("start", { server: { limits, cors: false } });
    expect((await server.post("/agents/a/text", text(1_000_000))).status).toBe(200);
    expect((await server.post("/agents/a/text", text(1_000_001))).status).toBe(413);
    expect((await server.post("/agents/a/object", text(100_001))).status).toBe(413);
  });

  it("limits.chatBodyBytes is for long strings: bodyBytes bounds the rest of a body", async () => {
    const { server } = await open("start", { server: { limits } });
    const wide = Object.fromEntries(Array.from({ length: 9_000 }, (_, n) => [`key ${n}`, n]));
    const { status, body } = await server.post("/agents/a/text", { input: "hi", options: { context: wide } });
    expect([status, body.error]).toEqual([
      413,
      "Request body too large: more than 100000 bytes beside its long strings",
    ]);
    const some = Object.fromEntries(Object.entries(wide).slice(0, 1_000));
    const input = "x".repeat(500_000);
    expect((await server.post("/agents/a/text", { input, options: { context: some } })).status).toBe(200);
  });

  it("counts the body of a chat in the bytes in flight", async () => {
    const gates = createGates();
    const wait = async () => (await gates.pass("answer"), "ok");
    const config = { server: { limits: { ...limits, inFlightBytes: 7_600_000 } } };
    const { server } = await open("start", config, [wait, wait, ...many]);
    const first = server.post("/agents/a/text", text(1_000_000));
    await gates.reached("answer");
    const second = server.post("/agents/a/text", text(500_000));
    // Five times 1.5 MB, and a little for each object: the next one is over the bound.
    await eventually(async () => {
      const { status, headers, body } = await server.post("/agents/a/text", text(20_000));
      expect([status, headers.get("retry-after"), body.error]).toEqual([503, "1", "Too much data in flight"]);
    });
    gates.open("answer");
    expect((await first).status).toBe(200);
    expect((await second).status).toBe(200);
    await eventually(async () => expect((await server.post("/agents/a/text", text(20_000))).status).toBe(200));
  });
});

describe.each(["dev", "start"] as const)("a large body of a caller without a token (%s)", (target) => {
  const auth = {
    type: "test",
    verifyToken(token: string) {
      if (token !== "good") throw new Error("bad");
      return { id: "ada" };
    },
  };

  async function upload(server: TestServer, headers: string) {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    await once(socket, "connect");
    let answer = "";
    socket.setEncoding("utf8").on("data", (part) => (answer += part));
    socket.on("error", () => {});
    socket.write(
      `POST /agents/a/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${headers}\r\n\r\n`,
    );
    return { socket, answer: () => answer };
  }

  it.each([`Content-Length: ${20 * mebibyte}`, "Transfer-Encoding: chunked"])(
    "answers a large body without a token with 401 before it is read (%s)",
    async (headers) => {
      const { server, model } = await open(target, { auth });
      const { socket, answer } = await upload(server, headers);
      await until(() => answer().startsWith("HTTP/1.1 401"), "the refusal");
      socket.destroy();
      expect(model.calls).toEqual([]);
    },
  );

  it("reads a body in chunks with a token to its end, or refuses it once it is over the limit", async () => {
    const { server, model } = await open(target, { auth, server: { limits } });
    const headers = "Authorization: Bearer good\r\nTransfer-Encoding: chunked";
    const chunk = (part: string) => `${part.length.toString(16)}\r\n${part}\r\n`;
    const [start, end] = ['{"input":[{"role":"user","content":"', '"}]}'];
    const whole = await upload(server, headers);
    whole.socket.write(chunk(start) + chunk("x".repeat(800_000)) + chunk(end) + chunk(""));
    await until(() => whole.answer().includes("[DONE]"), "the answer");
    expect(model.calls).toHaveLength(1);
    const over = await upload(server, headers);
    over.socket.write(chunk(start) + chunk("x".repeat(1_000_000)));
    await until(() => over.answer().startsWith("HTTP/1.1 413"), "the refusal");
    expect(model.calls).toHaveLength(1);
  });
});

describe("limits.conversationBytes", () => {
  it("limits.conversationBytes bounds what a model is shown, and the log says how many messages were left out", async () => {
    const { server, model } = await open("start", { server: { limits: { conversationBytes: 1_000_000 } } });
    const say = (input: string) => server.post("/agents/a/text", { input, options: { conversationId: "c" } });
    const warnings = () => server.logs.filter(({ level }) => level === "warn").map(({ data }) => data);
    for (let turn = 0; turn < 3; turn++) await say("x".repeat(300_000));
    expect(model.calls.at(-1)!.prompt).toHaveLength(6);
    expect(warnings()).toEqual([]);
    await say("y".repeat(300_000));
    // Of six messages before it, the first question does not fit, and its answer has no meaning alone.
    expect(model.calls.at(-1)!.prompt).toHaveLength(6);
    expect(warnings()).toMatchObject([{ conversationId: "c", omitted: 2 }]);
    await say("z".repeat(1_500_000));
    expect(model.calls.at(-1)!.prompt).toHaveLength(2);
    expect(warnings()).toMatchObject([{ omitted: 2 }, { conversationId: "c", omitted: 8 }]);
  });

  it("limits.conversationBytes keeps a message whole that a client's tool continues", async () => {
    const locate = tool({ inputSchema: z.object({}) });
    const call = { text: "x".repeat(600_000), toolCalls: [{ toolName: "locate", input: {}, toolCallId: "l1" }] };
    const config = { server: { limits: { conversationBytes: 1_000_000 } } };
    const { server, model } = await open("start", config, [call, "Rome.", "ok"], { locate });
    const say = (input: unknown) => server.post("/agents/a/text", { input, options: { conversationId: "c" } });
    const warnings = () => server.logs.filter(({ level }) => level === "warn").map(({ data }) => data);
    await say("y".repeat(300_000));
    const output = { type: "text", value: "z".repeat(200_000) };
    const result = { type: "tool-result", toolCallId: "l1", toolName: "locate", output };
    await say([{ role: "tool", content: [result] }]);
    // The question does not fit. The call and its result are one message.
    expect(model.calls.at(-1)!.prompt.map(({ role }) => role)).toEqual(["system", "assistant", "tool"]);
    expect(warnings()).toMatchObject([{ omitted: 1 }]);
    await say("w".repeat(500_000));
    expect(model.calls.at(-1)!.prompt.map(({ role }) => role)).toEqual(["system", "user"]);
    // The question, the call, its result and the answer.
    expect(warnings()).toMatchObject([{ omitted: 1 }, { omitted: 4 }]);
  });
});
