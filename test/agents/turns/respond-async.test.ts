// Each of these changes makes a test of this file fail: a waiting turn that ends with its request; `object` that is stored as the
// model wrote it; a limit that counts only turns that run.
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { until } from "../../harness/waiting.ts";
import { createPlannedModel, linesOf, read, stored, toAgent, unique } from "./turn-server.ts";

const { model, gates, plan } = createPlannedModel();
const agents = [
  toAgent(model, "helper"),
  toAgent(model, "strict", { onDisconnect: "abort" }),
  toAgent(model, "forgetful", { memory: false }),
];
const prefer = { headers: { prefer: "respond-async" } };
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

describeServer("Prefer: respond-async of an agent", { config: { agents }, only: ["in process"] }, (server) => {
  const gated = (question: string, answer: unknown): void =>
    plan(question, async () => {
      await gates.pass(question);
      return answer;
    });

  it.for(["helper", "strict"])(
    "answers respond-async of agent %s with 202 before its model answers, and stores the answer",
    async (agent) => {
      const [id, question] = [unique("c"), unique("question")];
      gated(question, "Hello.");
      const body = { input: question, options: { conversationId: id } };
      const { status, body: answer } = await server.post(`/agents/${agent}/text`, body, prefer);
      const messageId = expect.any(String);
      expect([status, answer.data]).toEqual([202, { conversationId: id, messageId, status: "running" }]);
      expect(linesOf(await read(server, agent, id))).toEqual([`user: ${question}`]);
      gates.open(question);
      const messages = await stored(server, agent, id, 2);
      expect(linesOf(messages)).toEqual([`user: ${question}`, "assistant: Hello."]);
      expect(messages[1]!.id).toBe(answer.data.messageId);
    },
  );

  it("respond-async of an object stores the answer as JSON", async () => {
    const [id, question] = [unique("c"), unique("question")];
    gated(question, ' { "city" :\n "Rome" } ');
    const body = { input: question, schema, options: { conversationId: id } };
    const { status, body: answer } = await server.post("/agents/helper/object", body, prefer);
    expect(status).toBe(202);
    gates.open(question);
    const messages = await stored(server, "helper", id, 2);
    expect(linesOf(messages)[1]).toBe('assistant: {"city":"Rome"}');
    expect(messages[1]!.id).toBe(answer.data.messageId);
  });

  it("a respond-async turn can be stopped by the id of its answer", async () => {
    const [id, question] = [unique("c"), unique("question")];
    gated(question, "Never.");
    const body = { input: question, options: { conversationId: id } };
    const { messageId } = (await server.post("/agents/helper/text", body, prefer)).body.data;
    await gates.reached(question);
    const stopped = await server.post(`/agents/helper/conversations/${id}/stop`, { messageId });
    expect(stopped.body.data).toEqual({ stopped: true, messageId });
    gates.open(question);
  });

  it("respond-async needs a stored conversation", async () => {
    for (const [path, body] of [
      ["helper/text", { input: "Hi" }],
      ["helper/object", { input: "Hi", schema }],
      ["forgetful/text", { input: "Hi", options: { conversationId: "c" } }],
    ] as const) {
      expect((await server.post(`/agents/${path}`, body, prefer)).status).toBe(400);
    }
  });

  it("refuses a wrong schema before a respond-async turn begins", async () => {
    const id = unique("c");
    const body = { input: "Hi", schema: { type: "nonsense" }, options: { conversationId: id } };
    expect((await server.post("/agents/helper/object", body, prefer)).status).toBe(400);
    expect(await read(server, "helper", id)).toEqual([]);
  });
});

const limits = { detachedTurns: 2 };
describeServer(
  "Prefer: respond-async beyond limits.detachedTurns",
  { config: { agents, server: { limits } }, only: ["in process"] },
  (server) => {
    it("respond-async beyond limits.detachedTurns is a 503, for requests that come at once as well, until one of them has ended", async () => {
      const all = Array.from({ length: 5 }, () => ({ id: unique("c"), question: unique("question") }));
      const ask = ({ id, question }: { id: string; question: string }) =>
        server.post("/agents/helper/text", { input: question, options: { conversationId: id } }, prefer);
      for (const { question } of all) {
        plan(question, async () => {
          await gates.pass(question);
          return "Hello.";
        });
      }
      const answers = await Promise.all(all.map(ask));
      expect(answers.map(({ status }) => status).toSorted()).toEqual([202, 202, 503, 503, 503]);
      const refused = answers.find(({ status }) => status === 503)!;
      expect(refused.body.error).toBe("Too many turns run without a reader");
      expect(refused.headers.get("retry-after")).toBe("5");
      for (const { question } of all) gates.open(question);
      for (const [index, { id }] of all.entries()) {
        if (answers[index]!.status === 202) await stored(server, "helper", id, 2);
        else expect(await read(server, "helper", id)).toEqual([]);
      }
      const again = { id: unique("c"), question: unique("question") };
      plan(again.question, "Hello.");
      await until(async () => (await ask(again)).status === 202, "a place");
    });

    it("a respond-async request waits for its turn in the conversation, also if its client leaves", async () => {
      const [id, question, next] = [unique("c"), unique("question"), unique("next")];
      plan(question, async () => {
        await gates.pass(question);
        return "First.";
      });
      plan(next, "Second.");
      const options = { conversationId: id };
      expect((await server.post("/agents/helper/text", { input: question, options }, prefer)).status).toBe(202);
      // The probe begins nothing.
      const probe = { input: "Hi", schema: { type: "nonsense" }, options: { conversationId: unique("c") } };
      const isFull = async () => {
        const { body } = await server.post("/agents/helper/object", probe, prefer);
        return body.error === "Too many turns run without a reader"; // a busy Restate is a 503 as well
      };
      await until(async () => !(await isFull()), "the end of the turns of other tests");
      const leaving = new AbortController();
      const waiting = server.send("/agents/helper/text", {
        method: "POST",
        headers: { "content-type": "application/json", ...prefer.headers },
        body: JSON.stringify({ input: next, options }),
        signal: leaving.signal,
      });
      waiting.catch(() => {}); // its client has left
      await until(isFull, "the second turn, which counts while it waits");
      leaving.abort();
      gates.open(question);
      const lines = linesOf(await stored(server, "helper", id, 4));
      expect(lines).toEqual([`user: ${question}`, "assistant: First.", `user: ${next}`, "assistant: Second."]);
    });
  },
);
