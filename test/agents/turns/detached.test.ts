// Each of these changes makes a test of this file fail: a reader that leaves ends its turn; `continues` without the agent or
// without the client; `#mayDetach` without one of its limits.
import { expect, it } from "vitest";
import { describeServer, type TestServer } from "../../harness/server.ts";
import { until, within } from "../../harness/waiting.ts";
import { chat, chatBody, createPlannedModel, isText, linesOf, openReader, read } from "./turn-server.ts";
import { stored, toAgent, unique, untilLeft } from "./turn-server.ts";

const { model, gates, plan, words, signal } = createPlannedModel();
const errors: unknown[] = [];
const hooks = { onError: ({ error }: { error: unknown }) => void errors.push(error) };
const agents = [toAgent(model, "helper"), toAgent(model, "strict", { onDisconnect: "abort", hooks })];

/** Asks a question, and leaves after the first word of its answer. */
async function abandon(server: TestServer, id: string, question: string, options = {}): Promise<void> {
  plan(question, words(question));
  const reader = await chat(server, "helper", id, question, options);
  await reader.readUntil(isText(question));
  reader.leave();
  await untilLeft(server);
}

describeServer("a client that leaves its turn", { config: { agents }, only: ["in process", "start"] }, (server) => {
  it.for(["chat", "stream"])("completes and stores an answer of %s whose client has left", async (endpoint) => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, words(`${question} a`, " b", " c"));
    const reader = await openReader(server, `/agents/helper/${endpoint}`, {
      input: chatBody(id, question).messages,
      options: { conversationId: id },
    });
    await reader.readUntil(isText(`${question} a`));
    reader.leave();
    await untilLeft(server);
    expect(linesOf(await read(server, "helper", id))).toEqual([`user: ${question}`]);
    for (const word of [`${question} a`, " b", " c"]) gates.open(word);
    const messages = await stored(server, "helper", id, 2);
    expect(linesOf(messages)).toEqual([`user: ${question}`, `assistant: ${question} a b c`]);
    expect(signal(question).aborted).toBe(false);
  });

  /** Asks for a text, and leaves when the model was asked. Resolves when the server knows it. */
  async function leaveText(agent: string, id: string, question: string, options = {}): Promise<void> {
    const leaving = new AbortController();
    const left = server.activity.length;
    const asked = server.send(`/agents/${agent}/text`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ input: question, options: { conversationId: id, ...options } }),
      signal: leaving.signal,
    });
    await Promise.race([gates.reached(question), asked.then((answer) => expect(answer.status).toBe(0))]);
    leaving.abort();
    await asked.then((answer) => expect(answer.status).toBe(499)).catch(() => {}); // a socket has no answer
    await until(
      () => server.activity.slice(left).some(({ data }) => data?.["status"] === 499),
      () => `the end of the request: ${JSON.stringify(server.activity.slice(left))}`,
    );
  }

  it("completes and stores an answer of text whose client left before the first word", async () => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, async () => {
      await gates.pass(question);
      return "Late.";
    });
    await leaveText("helper", id, question);
    gates.open(question);
    expect(linesOf(await stored(server, "helper", id, 2))).toEqual([`user: ${question}`, "assistant: Late."]);
  });

  it.for([
    ["the agent", "strict", {}],
    ["the client", "helper", { onDisconnect: "abort" }],
    ["the agent and not the client", "strict", { onDisconnect: "continue" }],
  ] as const)("keeps only the question of a turn left with `onDisconnect: abort` of %s", async ([, agent, options]) => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, words(`${question} a`, "never"));
    const reader = await chat(server, agent, id, question, options);
    await reader.readUntil(isText(`${question} a`));
    const aborted = new Promise((resolve) => signal(question).addEventListener("abort", resolve));
    reader.leave();
    await within(aborted);
    const next = unique("next");
    plan(next, "Hello.");
    await (await chat(server, agent, id, next)).rest();
    const lines = linesOf(await read(server, agent, id));
    expect(lines).toEqual([`user: ${question}`, `user: ${next}`, "assistant: Hello."]);
  });

  it.for(["text", "stream"])("does not call onError when a client has the whole answer of %s", async (endpoint) => {
    const before = errors.length;
    const [id, question] = [unique("c"), unique("question")];
    plan(question, "Hello.");
    const { status } = await server.post(`/agents/strict/${endpoint}`, {
      input: question,
      options: { conversationId: id },
    });
    expect(status).toBe(200);
    await until(async () => (await server.get("/agents/strict")).body.data.status === "idle", "the end of the turn");
    expect(errors.slice(before)).toEqual([]);
  });

  it("does not end a turn with `onDisconnect: abort` while it has another reader", async () => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, words(`${question} a`, " b"));
    const reader = await chat(server, "strict", id, question);
    await reader.readUntil(isText(`${question} a`));
    const second = await openReader(server, `/agents/strict/chat/${id}/stream`);
    await second.readUntil(isText(`${question} a`));
    reader.leave();
    await untilLeft(server, 1);
    for (const word of [`${question} a`, " b"]) gates.open(word);
    expect((await second.rest()).at(-1).type).toBe("finish");
    expect(linesOf(await read(server, "strict", id)).at(-1)).toBe(`assistant: ${question} a b`);
  });

  it("continues at most 5 turns of one user without a reader", async () => {
    const all = Array.from({ length: 6 }, () => ({ id: unique("c"), question: unique("question") }));
    for (const { id, question } of all) await abandon(server, id, question, { userId: "ada" });
    await until(() => signal(all[5]!.question).aborted, "the abort of the last one");
    for (const { question } of all.slice(0, 5)) expect(signal(question).aborted).toBe(false);
    const [id, question] = [unique("c"), unique("question")];
    await abandon(server, id, question, { userId: "bob" });
    for (const one of [...all, { question }]) gates.open(one.question);
    expect(await stored(server, "helper", id, 2, "bob")).toHaveLength(2);
    for (const one of all.slice(0, 5)) await stored(server, "helper", one.id, 2, "ada");
    expect(await read(server, "helper", all[5]!.id, "ada")).toHaveLength(1);
  });

  it("logs no error when a client leaves its turn", () => {
    expect(server.logs.filter(({ level }) => level === "error")).toEqual([]);
  });
});

const limits = { detachedTurns: 1 };
describeServer(
  "limits.detachedTurns",
  { config: { agents, server: { limits } }, only: ["in process", "start"] },
  (server) => {
    it("ends a turn beyond limits.detachedTurns when its client leaves", async () => {
      const all = Array.from({ length: 2 }, () => ({ id: unique("c"), question: unique("question") }));
      for (const { id, question } of all) await abandon(server, id, question);
      await until(() => signal(all[1]!.question).aborted, "the abort of the second one");
      for (const { question } of all) gates.open(question);
      await stored(server, "helper", all[0]!.id, 2);
      expect(await read(server, "helper", all[1]!.id)).toHaveLength(1);
      const [id, question] = [unique("c"), unique("question")];
      await abandon(server, id, question);
      gates.open(question);
      await stored(server, "helper", id, 2);
    });
  },
);
