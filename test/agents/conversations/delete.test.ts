// Each of these changes makes a test of this file fail: a turn that runs on, or stores its answer; one that waits and is not
// refused; a turn that begins before the deletion has ended; a row, a record or a turn that stays in the file.
import { defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { eventually, until } from "../../harness/waiting.ts";
import { describeServer, startServer, startTestServer } from "../../harness/server.ts";
import { newFile, query } from "../../workflows/waits/serve.ts";
import { onFile } from "../../harness/backends.ts";
import { attach, chat, createPlannedModel, isText, toAgent, unique } from "../turns/turn-server.ts";
import { createAgent, held, live } from "../turns/lives.ts";
import { toApi } from "./api.ts";

const planned = createPlannedModel();
const helper = toAgent(planned.model, "helper");
const asks = defineWorkflow({ id: "asks" }).andAgent({
  id: "ask",
  agent: helper,
  prompt: ({ data }: any) => data.question,
});
const config = { agents: [helper], workflows: [asks] };
const plan = (answer = "Answer"): string => {
  const question = unique("Q");
  planned.plan(question, answer);
  return question;
};
const deleted = { status: 409, body: { error: "The conversation was deleted" } };
const missing = { status: 404 };

describeServer("DELETE of a conversation", { config, only: ["start"] }, (server) => {
  const { gates, words } = planned;
  /** Asks a question whose answer stops after its first word. */
  function planSlow(): { question: string; half: string; open(): void } {
    const question = unique("Q");
    const half = `${question} half`;
    planned.plan(question, words(half, `${question} end`));
    return { question, half, open: () => [half, `${question} end`].forEach((gate) => gates.open(gate)) };
  }

  it("deletes a conversation once, and the next turn begins a new one", async () => {
    const api = toApi(server, { userId: unique("ada") });
    const [first, second] = [plan(), plan()];
    await api.say("c", first);
    expect(await api.remove("c")).toMatchObject({ status: 200, body: { data: { deleted: true } } });
    for (const answer of [await api.read("c"), await api.rename("c", "x"), await api.remove("c")])
      expect(answer).toMatchObject(missing);
    expect((await api.list()).body.data.items).toEqual([]);
    await api.say("c", second);
    expect(planned.prompts(second)).toEqual([[`user: ${second}`]]);
    expect((await api.list()).body.data.items).toMatchObject([{ id: "c", title: second, messageCount: 2 }]);
  });

  it("deletes no conversation of another user or with another id", async () => {
    const [ada, bob] = [unique("ada"), unique("bob")].map((userId) => toApi(server, { userId }));
    const [one, two, three] = [plan(), plan(), plan()];
    await ada!.say("c", one);
    await ada!.say("d", two);
    await bob!.say("c", three);
    await ada!.remove("c");
    expect((await ada!.list()).body.data.items).toMatchObject([{ id: "d", messageCount: 2 }]);
    expect((await bob!.list()).body.data.items).toMatchObject([{ id: "c", messageCount: 2 }]);
  });

  it("stops the running turn of a deleted conversation, and answers waiting ones with 409", async () => {
    const userId = unique("ada");
    const api = toApi(server, { userId });
    await api.say("c", plan());
    const slow = planSlow();
    const waiting = [plan(), plan()];
    const reader = await chat(server, "helper", "c", slow.question, { userId });
    await reader.readUntil(isText(slow.half));
    const asked = waiting.map((question) => api.say("c", question));
    await until(async () => (await api.list()).body.data.items[0].running, "the turn to be seen");
    expect(await api.remove("c")).toMatchObject({ status: 200 });
    // A turn that has not reached its place yet finds a new conversation.
    for (const answer of await Promise.all(asked)) expect([200, 409]).toContain(answer.status);
    const events = await reader.rest();
    expect(events.at(-1)).toEqual({ type: "error", errorText: deleted.body.error });
    slow.open();
    const last = plan();
    await api.say("c", last);
    const lines = planned.prompts(last)[0]!.join();
    expect(lines).not.toContain(slow.question);
    const { messages } = (await api.read("c")).body.data;
    expect(JSON.stringify(messages)).not.toContain(slow.question);
  });

  it("fails a step whose conversation is deleted while it asks", async () => {
    const userId = unique("ada");
    const api = toApi(server, { userId });
    await api.say("c", plan());
    const slow = planSlow();
    const options = { userId, conversationId: "c" };
    const running = server.post("/workflows/asks/execute", { input: { question: slow.question }, options });
    await gates.reached(slow.half);
    expect(await api.remove("c")).toMatchObject({ status: 200 });
    expect(await running).toMatchObject({ status: 500 });
    slow.open();
  });
});

describe("DELETE of a conversation in a file", () => {
  const rows = (file: string): unknown =>
    ["conversations", "messages", "executions", "records"].map(
      (table) => query<{ count: number }>(file, `select count(*) as count from ${table}`)[0]!.count,
    );

  it("leaves no row of a deleted conversation, also of its running turn", async () => {
    const file = newFile();
    const server = await startServer("start", { config, backend: onFile(file) });
    const api = toApi(server);
    const question = unique("Q");
    planned.plan(question, planned.words("half", "end"));
    const reader = await chat(server, "helper", "c", question);
    await reader.readUntil(isText("half"));
    expect(rows(file)).toEqual([1, 1, 1, expect.any(Number)]);
    expect((await api.remove("c")).status).toBe(200);
    expect(rows(file)).toEqual([0, 0, 0, 0]);
    expect((await attach(server, "helper", "c")).status).toBe(204);
    await reader.rest();
    await server.close();
    expect(rows(file)).toEqual([0, 0, 0, 0]);
    planned.gates.open("half");
    planned.gates.open("end");
  });

  it("answers all turns that wait in a deleted conversation with 409, and begins the next one anew", async () => {
    const server = await startTestServer("in process", { config, backend: onFile(newFile()) });
    const api = toApi(server);
    const question = unique("Q");
    planned.plan(question, planned.words("a half", "an end"));
    const reader = await chat(server, "helper", "c", question);
    await reader.readUntil(isText("a half"));
    // At most 32 wait: when one is refused, all others have their place.
    const asked = Array.from({ length: 33 }, () => api.say("c", plan()));
    const refused = asked.map(async (answer) => expect((await answer).status).toBe(503));
    await Promise.any(refused);
    expect((await api.remove("c")).status).toBe(200);
    const answers = await Promise.all(asked);
    expect(answers.filter(({ status }) => status === 503)).toHaveLength(1);
    for (const answer of answers.filter(({ status }) => status !== 503)) expect(answer).toMatchObject(deleted);
    const next = plan();
    expect((await api.say("c", next)).status).toBe(200);
    expect(planned.prompts(next)).toEqual([[`user: ${next}`]]);
  });

  it("deletes a conversation whose turn the last process has left", async () => {
    const file = newFile();
    const never = held("never");
    const first = await live(file, { script: ["Before", never.step] });
    await first.ask("one");
    await first.begin("two");
    await never.reached;
    await first.close();
    expect(rows(file)).toEqual([1, 3, 1, expect.any(Number)]);
    const again = held("again");
    const second = await live(file, { script: [again.step, "After"] });
    await again.reached;
    const api = toApi(second.server, { agent: "a", userId: "ada" });
    expect((await api.remove("c")).status).toBe(200);
    expect(rows(file)).toEqual([0, 0, 0, 0]);
    again.open();
    expect((await second.ask("three")).body.data.text).toBe("After");
    await eventually(() => expect(rows(file)).toEqual([1, 2, 0, 0]));
    await second.close();
    const third = await live(file, { script: [] });
    expect((await toApi(third.server, { agent: "a", userId: "ada" }).read("c")).body.data.messages).toHaveLength(2);
    expect(third.model.calls).toEqual([]);
  });

  it("removes a conversation of many messages", async () => {
    const file = newFile();
    const { agent } = createAgent(["Answer"]);
    const server = await startTestServer("in process", { config: { agents: [agent] }, backend: onFile(file) });
    const key = { agentId: "a", conversationId: "c" };
    const turn = await server.conversations.open(key, { signal: new AbortController().signal });
    const message = (id: number) => ({ id: `${id}`, role: "user", ui: "{}", models: "[]", count: 1, at: 0 }) as const;
    await turn.store(Array.from({ length: 1_234 }, (_, id) => message(id)));
    turn.close();
    expect((await toApi(server, { agent: "a" }).list()).body.data.items).toMatchObject([{ messageCount: 1_234 }]);
    expect((await toApi(server, { agent: "a" }).remove("c")).status).toBe(200);
    expect(rows(file)).toEqual([0, 0, 0, 0]);
  });
});
