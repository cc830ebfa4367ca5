// Each of these changes makes a test of this file fail: a runtime of a user that reaches the conversations of others; a message
// that a step adds again when it runs again; an append of a turn to its own conversation, which would wait for itself.
import {
  createToken,
  defineAgent,
  defineTool,
  defineWorkflow,
  jwtAuth,
  type Runtime,
  type ServeError,
} from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { open } from "./open.ts";

const echo = defineAgent({ id: "echo", instructions: "", model: echoModel() });
const author = { id: "grace", name: "Grace" };
const statusOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => "no error",
    ({ status, message }: ServeError) => [status, message],
  );

it("lets the server list, read, answer in and delete the conversations of all users", async () => {
  const { runtime } = open({ agents: [echo] });
  await runtime.ask(echo, "Hello", { conversationId: "c1", as: { id: "ada" } });
  await runtime.ask(echo, "Hi", { conversationId: "c2" });
  const { conversations } = runtime;
  expect(await conversations.list(echo, { userId: "ada" })).toMatchObject({ items: [{ id: "c1" }], nextCursor: null });
  expect(await conversations.list("echo")).toMatchObject({ items: [{ id: "c2", messageCount: 2 }] });
  const { messageId } = await conversations.append(echo, "c1", { text: "I look into it", author, userId: "ada" });
  const { messages, isOwn } = await conversations.get(echo, "c1", { userId: "ada" });
  expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  expect(messages[2]).toMatchObject({ id: messageId, parts: [{ text: "I look into it" }], metadata: { author } });
  expect(isOwn).toBe(false);
  const missing = [404, "Conversation c1 not found"];
  expect(await statusOf(conversations.get(echo, "c1"))).toEqual(missing);
  expect(await statusOf(conversations.append(echo, "c1", { text: "x", author }))).toEqual(missing);
  await conversations.delete(echo, "c1", { userId: "ada" });
  expect(await statusOf(conversations.delete(echo, "c1", { userId: "ada" }))).toEqual(missing);
  for (const wrong of [{ text: " ", author }, { text: "x", author: {} }, { text: "x" }])
    expect(await statusOf(conversations.append(echo, "c2", wrong as never))).toMatchObject([400, /^Invalid options: /]);
  expect(await statusOf(conversations.list("nobody"))).toEqual([404, "Agent nobody not found"]);
});

it("reads the conversations of a user page by page", async () => {
  const { runtime } = open({ agents: [echo] });
  const ids = Array.from({ length: 55 }, (_, index) => `c${index}`);
  for (const conversationId of ids) await runtime.ask(echo, "Hello", { conversationId, as: { id: "ada" } });
  const first = await runtime.conversations.list(echo, { userId: "ada" });
  const second = await runtime.conversations.list(echo, { userId: "ada", cursor: first.nextCursor! });
  expect([...first.items, ...second.items].map(({ id }) => id)).toEqual(ids.toReversed());
  expect(second.nextCursor).toBeNull();
});

it("shows the runtime of a caller, a step and a tool the conversations of their user only", async () => {
  const secret = "a secret for tests, at least 32 bytes";
  async function look({ conversations }: Pick<Runtime, "conversations">): Promise<unknown[]> {
    const { items } = await conversations.list("echo");
    const others = [
      conversations.list("echo", { userId: "ada" }),
      conversations.get("echo", "of-ada", { userId: "ada" }),
      conversations.append("echo", "of-ada", { text: "x", author, userId: "ada" }),
      conversations.delete("echo", "of-ada", { userId: "ada" }),
    ];
    const answers = await Promise.all(others.map(statusOf));
    return [items.map(({ id, isOwn }) => [id, isOwn]), ...answers, await statusOf(conversations.get("echo", "of-ada"))];
  }
  const tool = defineTool({
    description: "",
    inputSchema: v.object({}),
    execute: async (_, { runtime }) => JSON.stringify(await look(runtime)),
  });
  const asker = defineAgent({
    id: "asker",
    instructions: "",
    model: scriptedModel([
      { toolCalls: [{ toolName: "tool", input: {} }] },
      ({ prompt }) => (prompt.at(-1)!.content as any)[0].output.value,
    ]),
    tools: { tool },
  });
  const looks = defineWorkflow({ id: "looks" }).andThen({ id: "look", execute: ({ runtime }) => look(runtime) });
  const server = open({
    agents: [echo, asker],
    workflows: [looks],
    auth: jwtAuth({ secret }),
    configureApp: (app) => app.get("/look", (event) => look(event.context.runtime)),
  });
  await server.runtime.ask(echo, "Hello", { conversationId: "of-ada", as: { id: "ada" } });
  await server.runtime.ask(echo, "Hello", { conversationId: "of-bob", as: { id: "bob" } });
  const authorization = `Bearer ${await createToken({ sub: "bob" }, secret)}`;
  const forbidden = [403, "Forbidden"];
  const due = [[["of-bob", true]], forbidden, forbidden, forbidden, forbidden, [404, "Conversation of-ada not found"]];
  const response = await server.fetch(new Request("http://localhost/look", { headers: { authorization } }));
  expect(await response.json()).toEqual(due);
  expect(await server.runtime.execute(looks, {}, { as: { id: "bob" } })).toMatchObject({ result: due });
  expect(JSON.parse(await server.runtime.ask(asker, "Look", { as: { id: "bob" } }))).toEqual(due);
});

it("adds a message once if its step runs again", async () => {
  let attempts = 0;
  const answers = defineWorkflow({ id: "answers" }).andThen({
    id: "answer",
    retry: { attempts: 2 },
    async execute({ runtime }) {
      const ids = [];
      for (const text of ["one", "two"])
        ids.push((await runtime.conversations.append("echo", "c", { text, author })).messageId);
      if (++attempts === 1) throw new Error("after the messages");
      return ids;
    },
  });
  const { runtime } = open({ agents: [echo], workflows: [answers] });
  await runtime.ask(echo, "Hello", { conversationId: "c", as: { id: "ada" } });
  const { result } = (await runtime.execute(answers, {}, { as: { id: "ada" } })) as { result: string[] };
  const { messages } = await runtime.conversations.get(echo, "c", { userId: "ada" });
  expect([attempts, messages.slice(2).map(({ id }) => id)]).toEqual([2, result]);
});

it("refuses to add a message to the conversation of the turn whose tool adds it", async () => {
  const tool = defineTool({
    description: "",
    inputSchema: v.object({}),
    execute: async (_, { runtime }) =>
      JSON.stringify(await statusOf(runtime.conversations.append("asker", "c", { text: "x", author }))),
  });
  const call = { toolCalls: [{ toolName: "tool", input: {} }] };
  const model = scriptedModel(["Hello", call, ({ prompt }) => (prompt.at(-1)!.content as any)[0].output.value]);
  const { runtime } = open({ agents: [defineAgent({ id: "asker", instructions: "", model, tools: { tool } })] });
  const options = { conversationId: "c", as: { id: "ada" } };
  await runtime.ask("asker", "Hello", options);
  const answer = await runtime.ask("asker", "Add it", options);
  expect(JSON.parse(answer)).toEqual([409, "conversations.append(): the turn that calls it runs in this conversation"]);
});
