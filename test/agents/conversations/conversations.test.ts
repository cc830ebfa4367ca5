// Each of these changes makes a test of this file fail: a list in another order, or of another user; a count of rows; a title
// that is cut inside a word, or that a later message changes; an answer that is read while its turn runs; a page that forgets
// the message before it.
import { defineAgent, defineWorkflow } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { describe, expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { chat, createPlannedModel, isText, openReader, toAgent, unique } from "../turns/turn-server.ts";
import { readAll, toApi } from "./api.ts";

const echo = scriptedModel(Array.from({ length: 1_000 }, () => "Answer"));
const helper = defineAgent({ id: "helper", instructions: "x", model: echo });
const other = defineAgent({ id: "other", instructions: "x", model: echo });
const asks = defineWorkflow({ id: "asks" }).andAgent({ id: "ask", agent: helper, prompt: "Asked by a step" });
const config = { agents: [helper, other], workflows: [asks] };
const textsOf = (messages: any[]): string[] =>
  messages.map(({ parts }) => parts.map(({ text = "" }: any) => text).join(""));

describeServer("the conversations of a user", { config, only: ["in process"] }, (server) => {
  it("lists conversations, newest first by their creation, with titles, times and counts", async () => {
    const api = toApi(server, { userId: unique("ada") });
    expect((await api.list()).body.data).toEqual({ items: [], nextCursor: null });
    await api.say("one", "First words");
    await api.say("two", "Second words");
    await api.say("one", "More");
    // A turn leaves its conversation after its answer is sent.
    const { items } = await eventually(async () => {
      const { data } = (await api.list()).body;
      expect(data.items.map(({ running }: any) => running)).toEqual([false, false]);
      return data;
    });
    expect(items).toMatchObject([
      { id: "two", title: "Second words", messageCount: 2 },
      { id: "one", title: "First words", messageCount: 4 },
    ]);
    for (const { createdAt, updatedAt } of items) expect(updatedAt >= createdAt).toBe(true);
    expect(items[1].updatedAt >= items[0].updatedAt).toBe(true);
  });

  it("reads conversations by pages, whose size has limits", async () => {
    const api = toApi(server, { userId: unique("ada") });
    for (const id of ["a", "b", "c"]) await api.say(id, id);
    const first = (await api.list({ limit: 2 })).body.data;
    expect(first.items.map(({ id }: any) => id)).toEqual(["c", "b"]);
    const second = (await api.list({ limit: 2, cursor: first.nextCursor })).body.data;
    expect(second).toMatchObject({ items: [{ id: "a" }], nextCursor: null });
    expect((await api.list({ limit: 200 })).status).toBe(200);
    for (const more of [{ limit: 201 }, { limit: 0 }, { cursor: "x" }])
      expect(await api.list(more), JSON.stringify(more)).toMatchObject({ status: 400 });
  });

  it.each([
    [".", "an id other than . and .."],
    ["..", "an id other than . and .."],
    ["a\uD800", "Unicode without lone surrogates"],
    ["a".repeat(257), "at most 256 characters"],
  ])("a conversation has no id that cannot be in a URL: %j", async (id, rule) => {
    const api = toApi(server);
    const refused = { status: 400, body: { error: expect.stringContaining(`expected ${rule}`) } };
    expect(await api.say(id, "x")).toMatchObject(refused);
    const messages = [{ id: "m", role: "user", parts: [{ type: "text", text: "x" }] }];
    expect(await server.post("/agents/helper/chat", { id, messages })).toMatchObject(refused);
    const options = { conversationId: id };
    expect(await server.post("/workflows/asks/execute", { input: {}, options })).toMatchObject(refused);
    expect((await api.list()).body.data.items.map((one: any) => one.id)).not.toContain(id);
  });

  it("conversations have their messages, by pages as well, without those that the AI SDK refuses", async () => {
    const api = toApi(server, { userId: unique("ada") });
    const withoutParts = { role: "user", content: [] };
    await api.say("c", [{ role: "user", content: "Question 0" }, withoutParts]);
    for (let turn = 1; turn < 50; turn++) await api.say("c", `Question ${turn}`);
    const { data } = (await api.read("c")).body;
    expect(data).toMatchObject({ id: "c", title: "Question 0", messageCount: 101, running: null, hasMore: true });
    expect(data.messages).toHaveLength(99);
    expect(textsOf(data.messages).slice(0, 2)).toEqual(["Answer", "Question 1"]);
    const before = (await api.read("c", data.messages[0].id)).body.data;
    expect(textsOf(before.messages)).toEqual(["Question 0"]);
    expect(before.hasMore).toBe(false);
    expect((await api.read("c", "unknown")).body.data).toMatchObject({ messages: [], hasMore: false });
  });

  it("conversations are not found by another user, another agent or under another id", async () => {
    const userId = unique("ada");
    const own = toApi(server, { userId });
    await own.say("c", "Mine");
    const others = [toApi(server, { userId: unique("bob") }), toApi(server), toApi(server, { userId, agent: "other" })];
    for (const api of others) {
      expect((await api.list()).body.data.items.map(({ title }: any) => title)).not.toContain("Mine");
      for (const answer of [await api.read("c"), await api.rename("c", "x"), await api.remove("c")])
        expect(answer).toMatchObject({ status: 404, body: { error: "Conversation c not found" } });
    }
    expect(await own.read("C")).toMatchObject({ status: 404 });
    expect(await toApi(server, { agent: "nobody" }).list()).toMatchObject({ status: 404 });
    expect((await own.read("c")).body.data.title).toBe("Mine");
  });

  it("conversations have ids and users of any characters", async () => {
    for (const userId of [unique(`it's "quoted"`), unique("😀|%,\\"), unique("null")]) {
      const api = toApi(server, { userId });
      for (const id of ["a'b", 'say "hi"', "x|y%2f", "😀", "back\\slash"]) await api.say(id, `In ${id}`);
      const items = await readAll(api, 2);
      expect(items.map(({ title }) => title).toReversed()).toEqual(items.map(({ id }) => `In ${id}`).toReversed());
      expect(items).toHaveLength(5);
      expect(await api.remove("a'b")).toMatchObject({ status: 200 });
      expect(await readAll(api)).toHaveLength(4);
    }
  });

  it("renames a conversation to a title of 1 to 200 characters, which later turns do not change", async () => {
    const api = toApi(server, { userId: unique("ada") });
    await api.say("c", "Words");
    const { body } = await api.rename("c", " New title ");
    expect(body.data).toMatchObject({ id: "c", title: "New title", messageCount: 2 });
    await api.say("c", "More");
    expect((await api.read("c")).body.data.title).toBe("New title");
    expect((await api.rename("c", "😀".repeat(200))).status).toBe(200);
    for (const title of ["", "  ", "x".repeat(201), 7, undefined])
      expect(await api.rename("c", title), String(title)).toMatchObject({ status: 400 });
  });

  it("conversations include those of a workflow step", async () => {
    const userId = unique("ada");
    const options = { userId, conversationId: "from a step" };
    expect((await server.post("/workflows/asks/execute", { input: {}, options })).body.data.status).toBe("completed");
    const api = toApi(server, { userId });
    expect((await api.list()).body.data.items).toMatchObject([{ id: "from a step", title: "Asked by a step" }]);
    expect(textsOf((await api.read("from a step")).body.data.messages)).toEqual(["Asked by a step", "Answer"]);
  });
});

describe("the title of a conversation", () => {
  const long = "Supercalifragilisticexpialidocious".repeat(3);
  describeServer("from its first message", { config, only: ["in process"] }, (server) => {
    it.each([
      ["all words of a short message", "  How\n are\tyou? ", "How are you?"],
      ["at most 60 characters, cut at a word", `${"word ".repeat(11)}wordss`, "word ".repeat(11).trim()],
      [
        "exactly 60 characters where a word ends there",
        "x".repeat(29) + " " + "y".repeat(30) + " z",
        "x".repeat(29) + " " + "y".repeat(30),
      ],
      ["the first 60 characters of a long word", long, long.slice(0, 60)],
      ["whole characters", "😀".repeat(70), "😀".repeat(60)],
    ])("the title of a conversation has %s", async (_, message, title) => {
      const api = toApi(server, { userId: unique("title") });
      await api.say("c", message);
      expect((await api.list()).body.data.items).toMatchObject([{ title }]);
    });

    it("the title of a conversation has nothing of a file", async () => {
      const userId = unique("title");
      const part = { type: "file", mediaType: "image/png", url: "data:image/png;base64,iVBORw0KGgo=" };
      const messages = [{ id: "m", role: "user", parts: [part] }];
      await server.post("/agents/helper/chat", { messages, options: { userId, conversationId: "c" } });
      const { items } = (await toApi(server, { userId }).list()).body.data;
      expect(items).toMatchObject([{ title: "New conversation", messageCount: 2 }]);
    });
  });
});

const planned = createPlannedModel();
const slow = toAgent(planned.model, "helper");

describeServer("a conversation whose turn runs", { config: { agents: [slow] }, only: ["in process"] }, (server) => {
  const { gates } = planned;
  /** Asks a question whose answer stops after its first word, and returns what is read meanwhile. */
  async function readDuring(id: string, question: string, begin: () => Promise<any>) {
    const [half, end] = [`${question} half`, `${question} end`];
    planned.plan(question, planned.words(half, end));
    const reader = await begin();
    await reader.readUntil(isText(half));
    const read = (await toApi(server).read(id)).body.data;
    const earlier = (await toApi(server).read(id, read.messages[0].id)).body.data;
    const listed = (await toApi(server).list()).body.data.items.find((one: any) => one.id === id);
    gates.open(half);
    gates.open(end);
    await reader.rest();
    return { read, earlier, listed, after: (await toApi(server).read(id)).body.data };
  }

  it("a conversation whose turn runs is read up to its answer, which is named", async () => {
    const id = unique("running");
    const question = unique("Q");
    const { read, listed, after } = await readDuring(id, question, () => chat(server, "helper", id, question));
    expect(textsOf(read.messages)).toEqual([question]);
    expect(read.running).toEqual({ messageId: after.messages[1].id });
    expect(listed).toMatchObject({ running: true, messageCount: 1 });
    expect(textsOf(after.messages)).toEqual([question, `${question} half${question} end`]);
    expect(after.running).toBeNull();
  });

  it("a conversation whose turn runs is read with an edited question, and without the messages that it replaces", async () => {
    const id = unique("edited");
    const question = unique("Q");
    const first = await readDuring(id, question, () => chat(server, "helper", id, question));
    const edited = unique("Q");
    const message = { id: first.after.messages[0].id, role: "user", parts: [{ type: "text", text: edited }] };
    const body = { messages: [message], options: { conversationId: id } };
    const second = await readDuring(id, edited, () => openReader(server, "/agents/helper/chat", body));
    expect(textsOf(second.read.messages)).toEqual([edited]);
    expect(second.earlier).toMatchObject({ messages: [], hasMore: false });
    expect(second.read.running).toEqual({ messageId: second.after.messages[1].id });
    expect(textsOf(second.after.messages)).toEqual([edited, `${edited} half${edited} end`]);
    expect(second.after.messageCount).toBe(2);
  });
});
