// Each of these changes makes a test of this file fail: a turn that overtakes one that the last process left; a left turn
// that waits for a slot; a question that is stored although its turn is refused; another answer id, question id or time after a restart.
import { defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { createGates } from "../../harness/gates.ts";
import { eventually } from "../../harness/waiting.ts";
import { newFile } from "../../harness/folders.ts";
import { createAgent, held, live, textsOf, type Life } from "./lives.ts";

it("ends a turn whose agent was removed: the user's message stays, and the next turn works", async () => {
  const file = newFile();
  const never = held("never");
  const first = await live(file, { script: [never.step] });
  expect(await first.begin("one")).toMatchObject({ status: 202 });
  await never.reached;
  await first.close();
  const second = await live(file, { script: [], agents: [] });
  await eventually(() =>
    expect(second.server.logs).toContainEqual(
      expect.objectContaining({ level: "warn", message: "A turn ended after a restart: agent a no longer exists" }),
    ),
  );
  await second.close();
  const third = await live(file, { script: ["answer of two"] });
  expect(await third.ask("two")).toMatchObject({ status: 200, body: { data: { text: "answer of two" } } });
  expect(third.model.calls).toHaveLength(1);
  expect(textsOf(third.model, 0)).toEqual(["one", "two"]);
});

it("continues a turn before those that come after the restart, which run in the order in which they came", async () => {
  const file = newFile();
  const never = held("never");
  const first = await live(file, { script: [never.step] });
  const begun = await first.begin("one");
  await never.reached;
  await first.close();
  const again = held("answer of one");
  const second = await live(file, { script: [again.step, "answer of two", "answer of three"] });
  const later = [second.ask("two"), second.ask("three")];
  await again.reached;
  expect(second.model.calls).toHaveLength(1);
  // The answer has the id that the client knows.
  const stopped = second.server.post("/agents/a/conversations/c/stop?userId=ada", { messageId: "another" });
  expect(await stopped).toMatchObject({ status: 409 });
  const attached = second.server.send("/agents/a/chat/c/stream?userId=ada&after=x", {});
  await new Promise(setImmediate);
  again.open();
  expect(await (await attached).text()).toContain(`{"type":"start","messageId":"${begun.body.data.messageId}"}`);
  expect((await Promise.all(later)).map(({ body }) => body.data.text)).toEqual(["answer of two", "answer of three"]);
  expect(textsOf(second.model, 2)).toEqual(["one", "answer of one", "two", "answer of two", "three"]);
});

it("keeps the ids and the times of the user's messages, which the client has not named", async () => {
  const file = newFile();
  const texts = ["hello", "are you there?"];
  const input = texts.map((content) => ({ role: "user", content }));
  const options = { userId: "ada", conversationId: "c" };
  const read = async ({ server }: Life) => {
    const rows = await server.conversations.read({ agentId: "a", ...options }, { limit: 10 });
    return rows.map(({ id, role, ui }) => ({ id, role, createdAt: JSON.parse(ui!).metadata.createdAt }));
  };
  const never = held("never");
  const first = await live(file, { script: [never.step] });
  const headers = { prefer: "respond-async" };
  await first.server.post("/agents/a/text", { input, options }, { headers });
  await never.reached;
  const before = await read(first);
  expect(before.map(({ role }) => role)).toEqual(["user", "user"]);
  expect(new Set(before.map(({ id }) => id)).size).toBe(2);
  await first.close();
  const again = held("yes");
  const second = await live(file, { script: [again.step] });
  await again.reached;
  expect(await read(second)).toEqual(before);
  // A client that knows the message can stop its turn.
  const stop = await second.server.post("/agents/a/conversations/c/stop?userId=ada", { messageId: before[1]!.id });
  expect(stop).toMatchObject({ status: 200, body: { data: { stopped: true } } });
  await second.close();
  const third = await live(file, { script: [] });
  expect((await read(third)).slice(0, 2)).toEqual(before);
});

it("stores nothing of a turn that is refused because the server is shutting down", async () => {
  const file = newFile();
  const slow = held("answer of one");
  const first = await live(file, { script: [slow.step], drainMs: 600_000 });
  const one = first.ask("one");
  await slow.reached;
  const two = first.ask("two");
  await new Promise(setImmediate); // it waits
  const closing = first.close();
  slow.open();
  expect(await one).toMatchObject({ status: 200 });
  expect(await two).toMatchObject({ status: 503 });
  await closing;
  const second = await live(file, { script: ["answer of three"] });
  await second.ask("three");
  expect(textsOf(second.model, 0)).toEqual(["one", "answer of one", "three"]);
});

it("continues a turn although all slots are taken", async () => {
  const file = newFile();
  const gates = createGates();
  const workflow = defineWorkflow({ id: "w" }).andThen({ id: "wait", execute: () => gates.pass("step") });
  const config = { workflows: [workflow], server: { limits: { runningExecutions: 1 } } };
  const never = held("never");
  const first = await live(file, { ...config, script: [never.step] });
  await first.server.post("/workflows/w/execute", { input: {} }, { headers: { prefer: "respond-async" } });
  await first.begin("one");
  await never.reached;
  await first.close();
  const second = await live(file, { ...config, script: ["answer of one", "answer of two"] });
  await second.ask("two");
  expect(textsOf(second.model, 1)).toEqual(["one", "answer of one", "two"]);
  const running = await second.server.get("/executions?status=running");
  expect(running.body.data.items).toHaveLength(1);
  gates.open("step");
});

it("gives up the place of a turn that ends before it is opened", async () => {
  const file = newFile();
  const never = held("never");
  const first = await live(file, { script: [never.step] });
  await first.begin("one");
  await never.reached;
  await first.close();
  // The model cannot be loaded.
  const { agent } = createAgent([], { model: "missing-provider/model" });
  const second = await live(file, { script: [], agents: [agent] });
  expect((await second.ask("two")).status).toBeGreaterThanOrEqual(500);
  await second.close();
  const third = await live(file, { script: ["answer of three"] });
  expect(await third.ask("three")).toMatchObject({ status: 200 });
  expect(textsOf(third.model, 0)).toEqual(["one", "three"]);
});
