// Each of these changes makes a test of this file fail: `attach` without `before`; an `after` that is not compared; `#isOld` that is
// never true; `#join` of the log that does not move the cursors.
import { createClock, createServer } from "agentserve/testing";
import { readUIMessageStream, tool, type UIMessage, type UIMessageChunk } from "ai";
import { expect, it } from "vitest";
import { z } from "zod";
import { callLocate, locate } from "../chat/chat-server.ts";
import { describeServer } from "../../harness/server.ts";
import { attach, chat, chatBody, createPlannedModel, isText, linesOf, openReader } from "./turn-server.ts";
import { read, stored, toAgent, unique } from "./turn-server.ts";

const { model, gates, plan, words } = createPlannedModel();
const pay = tool({
  description: "Pays",
  inputSchema: z.object({ amount: z.number() }),
  needsApproval: true,
  execute: () => "paid",
});
const tools = { locate, pay };
const agents = [toAgent(model, "helper", { tools }), toAgent(model, "other")];

/** Returns the message that a client builds from the events of a stream. */
async function toMessage(events: UIMessageChunk[]): Promise<UIMessage> {
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const event of events) controller.enqueue(event);
      controller.close();
    },
  });
  let last: UIMessage | undefined;
  for await (const message of readUIMessageStream({ stream })) last = message;
  return last!;
}
const toPlain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describeServer("GET /agents/:id/chat/:conversationId/stream", { config: { agents }, only: ["start"] }, (server) => {
  it("sends all parts of a turn to each attached reader, in the same order", async () => {
    const [id, question] = [unique("c"), unique("question")];
    const said = Array.from({ length: 6 }, (_, n) => `${question}.${n} `);
    plan(question, words(...said));
    const first = await chat(server, "helper", id, question);
    await first.readUntil(isText(said[0]!));
    const second = await attach(server, "helper", id);
    await second.readUntil(isText(said[0]!));
    for (const word of said.slice(0, 3)) gates.open(word);
    await second.readUntil(isText(said[3]!));
    const third = await attach(server, "helper", id);
    await third.readUntil(isText(said[3]!));
    for (const word of said) gates.open(word);
    const events = await first.rest();
    expect(events[0]).toMatchObject({ type: "start", messageId: expect.any(String) });
    expect(events.filter(({ type }) => type === "text-delta").map(({ delta }) => delta)).toEqual(said);
    expect(events.at(-1).type).toBe("finish");
    for (const reader of [second, third]) {
      expect(await reader.rest()).toEqual(events);
      expect(reader.status).toBe(200);
      expect(reader.headers.get("x-vercel-ai-ui-message-stream")).toBe("v1");
      expect(reader.text()).not.toMatch(/^id:/m);
      expect(reader.text().endsWith("data: [DONE]\n\n")).toBe(true);
    }
    const [, answer] = await stored(server, "helper", id, 2);
    expect(answer!.id).toBe(events[0].messageId);
  });

  it("sends every word of a long text once, to readers that attach before and after words were joined", async () => {
    const [id, question] = [unique("c"), unique("question")];
    const said = Array.from({ length: 200 }, (_, n) => `${question}.${n} `);
    plan(question, words(...said));
    const readers = [await chat(server, "helper", id, question)];
    for (const [from, to] of [
      [0, 30],
      [30, 150],
      [150, 200],
    ] as const) {
      const isThere = ({ delta = "" }) => delta.includes(said[from]!);
      for (const reader of readers) await reader.readUntil(isThere);
      readers.push(await attach(server, "helper", id));
      for (const word of said.slice(from, to)) gates.open(word);
    }
    for (const reader of readers) {
      const events = await reader.rest();
      expect(events.map(({ delta = "" }) => delta).join("")).toBe(said.join(""));
    }
  });

  it("attaches to a turn that began with `stream`, before its first part", async () => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, async () => {
      await gates.pass(question);
      return "Hello.";
    });
    const body = { input: question, options: { conversationId: id } };
    const first = openReader(server, "/agents/helper/stream", body);
    await gates.reached(question);
    const second = attach(server, "helper", id);
    gates.open(question);
    await (await first).rest();
    const reader = await second;
    // It may have come too late.
    const events = await reader.rest();
    if (reader.status === 200) expect((await toMessage(events)).parts.at(-1)).toMatchObject({ text: "Hello." });
    else expect(reader.status).toBe(204);
  });

  it("answers an attach with 204 where nothing runs, for another user and for another agent", async () => {
    const [id, question] = [unique("c"), unique("question")];
    expect((await server.get(`/agents/helper/chat/${id}/stream`)).status).toBe(204);
    plan(question, words(question));
    const first = await chat(server, "helper", id, question, { userId: "ada" });
    await first.readUntil(isText(question));
    for (const [agent, query] of [
      ["helper", ""],
      ["helper", "?userId=bob"],
      ["other", "?userId=ada"],
    ]) {
      expect((await server.get(`/agents/${agent}/chat/${id}/stream${query}`)).status).toBe(204);
    }
    const second = await attach(server, "helper", id, "?userId=ada");
    gates.open(question);
    expect(await second.rest()).toEqual(await first.rest());
    expect((await server.get(`/agents/helper/chat/${id}/stream?userId=ada`)).status).toBe(204);
    expect((await server.get("/agents/nobody/chat/c/stream")).status).toBe(404);
  });

  it("sends an answer that has ended to a client that has only an earlier message", async () => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, "It is done.");
    const events = await (await chat(server, "helper", id, question)).rest();
    const { messageId } = events[0];
    const late = await attach(server, "helper", id, `?after=${question}-id`);
    expect(late.headers.get("x-vercel-ai-ui-message-stream")).toBe("v1");
    const message = await toMessage(await late.rest());
    expect(late.text().endsWith("data: [DONE]\n\n")).toBe(true);
    const [, answer] = await stored(server, "helper", id, 2);
    expect(toPlain(message)).toMatchObject({ id: messageId, parts: toPlain(answer!.parts) });
    for (const query of ["", `?after=${messageId}`, `?after=${question}-id&userId=bob`]) {
      expect((await server.get(`/agents/helper/chat/${id}/stream${query}`)).status).toBe(204);
    }
  });

  it("answers an attach with 204 after a turn that has failed", async () => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, new Error("broken"));
    expect((await chat(server, "helper", id, question)).status).toBe(502);
    expect((await server.get(`/agents/helper/chat/${id}/stream?after=x`)).status).toBe(204);
    expect(linesOf(await read(server, "helper", id))).toEqual([`user: ${question}`]);
  });

  it.for([
    {
      what: "the result of a tool of the client",
      call: callLocate,
      part: { type: "tool-locate", toolCallId: "l1", state: "output-available", input: {}, output: { city: "Rome" } },
      line: (question: string) => `assistant: [locate {} → {"city":"Rome"}] ${question} done.`,
    },
    {
      what: "an approval",
      call: { toolCalls: [{ toolName: "pay", input: { amount: 5 }, toolCallId: "p1" }] },
      part: { type: "tool-pay", toolCallId: "p1", state: "approval-responded", input: { amount: 5 } },
      line: (question: string) => `assistant: [pay {"amount":5} → "paid"] ${question} done.`,
    },
  ])("sends an attached reader the stored parts before those after $what", async ({ call, part, line }) => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, call, words(question, " done."));
    await (await chat(server, "helper", id, question)).rest();
    const [asked, waiting] = await stored(server, "helper", id, 2);
    const { approval } = waiting!.parts.find(({ type }) => type === part.type) as { approval?: object };
    const answered = { ...part, ...(approval && { approval: { ...approval, approved: true } }) };
    const first = await openReader(server, "/agents/helper/chat", {
      messages: [asked, { ...waiting, parts: [answered] }],
      options: { conversationId: id },
    });
    await first.readUntil(isText(question));
    const second = await attach(server, "helper", id);
    await second.readUntil(isText(question));
    for (const word of [question, " done."]) gates.open(word);
    await first.rest();
    const events = await second.rest();
    expect(events[0]).toMatchObject({ type: "start", messageId: waiting!.id });
    const messages = await stored(server, "helper", id, 2);
    expect(linesOf(messages)[1]).toBe(line(question));
    expect(toPlain((await toMessage(events)).parts)).toEqual(toPlain(messages[1]!.parts));
  });
});

it("an answer is sent for 30 s after its end", async () => {
  const clock = createClock();
  const server = createServer({ agents }, { clock });
  const question = unique("question");
  plan(question, "It is done.");
  const body = JSON.stringify(chatBody("c", question));
  const headers = { "content-type": "application/json" };
  const said = await server.fetch(
    new Request("http://localhost/agents/helper/chat", { method: "POST", headers, body }),
  );
  expect(await said.text()).toContain("[DONE]");
  const late = async (): Promise<number> =>
    (await server.fetch(new Request("http://localhost/agents/helper/chat/c/stream?after=x"))).status;
  await clock.advance("29s");
  expect(await late()).toBe(200);
  await clock.advance("2s");
  expect(await late()).toBe(204);
  await server.close();
});
