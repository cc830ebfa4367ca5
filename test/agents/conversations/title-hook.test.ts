// Each of these changes makes a test of this file fail: a hook that is called for a later turn; one that the answer waits for;
// an error, a late or a wrong title that is more than a warning; a title of the user that the hook replaces.
import { defineAgent, type AgentHooks, type AgentTitleEvent } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { expect, it } from "vitest";
import { createGates } from "../../harness/gates.ts";
import { startTestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { serve } from "../../workflows/waits/serve.ts";
import { toApi } from "./api.ts";

async function open(title: AgentHooks["title"]) {
  const model = scriptedModel(["One", "Two", "Three", "Four"]);
  const agent = defineAgent({ id: "helper", instructions: "x", model, hooks: { title } });
  const server = await startTestServer("in process", { config: { agents: [agent] } });
  const api = toApi(server, { userId: "ada" });
  return { server, api, titleOf: async (id: string) => (await api.read(id)).body.data.title };
}

it("gives a new conversation the title that the title hook returns, and calls it once", async () => {
  const events: AgentTitleEvent[] = [];
  const { api, titleOf } = await open(async (event) => {
    events.push(event);
    return " Greetings ";
  });
  await api.say("c", "Hello there");
  await eventually(async () => expect(await titleOf("c")).toBe("Greetings"));
  await api.say("c", "And then?");
  await api.say("d", "Another");
  await eventually(async () => expect(await titleOf("d")).toBe("Greetings"));
  expect(events.map(({ title }) => title)).toEqual(["Hello there", "Another"]);
  expect(events[0]).toMatchObject({
    agent: { id: "helper" },
    context: { userId: "ada", conversationId: "c" },
    runtime: expect.anything(),
    message: { role: "user", parts: [{ type: "text", text: "Hello there" }] },
  });
});

it("does not wait for the title hook, and leaves a title that was changed meanwhile", async () => {
  const gates = createGates();
  const { api, titleOf } = await open(async () => {
    await gates.pass("title");
    return "Late";
  });
  expect((await api.say("c", "Hello")).status).toBe(200);
  expect(await titleOf("c")).toBe("Hello");
  await api.rename("c", "Mine");
  gates.open("title");
  await api.say("d", "Other");
  await eventually(async () => expect(await titleOf("d")).toBe("Late"));
  expect(await titleOf("c")).toBe("Mine");
});

it.each<[string, AgentHooks["title"], string]>([
  ["throws", () => Promise.reject(new Error("no model")), "no model"],
  ["returns no text", () => 7 as never, "Expected a title of 1 to 200 characters"],
  ["returns a long text", () => "x".repeat(201), "Expected a title of 1 to 200 characters"],
])("keeps the first words as title and warns if the title hook %s", async (_, title, reason) => {
  const { server, api, titleOf } = await open(title);
  expect((await api.say("c", "First words")).status).toBe(200);
  const warnings = () => server.logs.filter(({ level }) => level === "warn");
  await eventually(() => expect(warnings()).toHaveLength(1));
  expect(warnings()[0]).toMatchObject({
    message: "The hook title failed: the title is the first words of the conversation",
    data: { error: { message: reason } },
  });
  expect(await titleOf("c")).toBe("First words");
});

it("keeps the first words as title without a warning if the title hook returns nothing", async () => {
  const { server, api, titleOf } = await open(() => undefined);
  await api.say("c", "First words");
  await api.say("d", "Second");
  expect([await titleOf("c"), await titleOf("d")]).toEqual(["First words", "Second"]);
  expect(server.logs.filter(({ level }) => level === "warn")).toEqual([]);
});

it("gives up a title hook after 30 seconds", async () => {
  const gates = createGates();
  const model = scriptedModel(["One"]);
  const title = async (): Promise<string> => {
    await gates.pass("title");
    return "Too late";
  };
  const agent = defineAgent({ id: "helper", instructions: "x", model, hooks: { title } });
  const server = serve({ agents: [agent] });
  await server.post("/agents/helper/text", { input: "Hello", options: { conversationId: "c" } });
  await gates.reached("title");
  await server.clock.advance("29s");
  const warnings = () => server.server.logs().filter(({ level }) => level === "warn");
  expect(warnings()).toEqual([]);
  await server.clock.advance("2s");
  await eventually(() => expect(warnings()).toHaveLength(1));
  gates.open("title");
  expect((await server.get("/agents/helper/conversations/c")).body.data.title).toBe("Hello");
});
