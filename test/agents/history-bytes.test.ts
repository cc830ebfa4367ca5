// A history that is not counted makes tests of this file fail.
import { defineAgent, defineTool, defineWorkflow } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { createGates } from "../harness/gates.ts";
import { describeServer, type TestServer } from "../harness/server.ts";
import { eventually, within } from "../harness/waiting.ts";

const gates = createGates();
const answer: ScriptedStep = async ({ prompt }) => {
  const { role, content } = prompt.at(-1)!;
  const [part] = content as { type: string; text?: string }[];
  const [, order, name = ""] = /^(wait|nest) (.*)$/s.exec((role === "user" && part?.text) || "") ?? [];
  if (order === "nest") return { toolCalls: [{ toolName: "nest", input: { conversationId: name } }] };
  if (order === "wait") await gates.pass(name);
  return "ok";
};
const script = Array.from({ length: 1_000 }, () => answer);
const inner = defineAgent({ id: "inner", instructions: "x", model: scriptedModel(script) });
const nest = defineTool({
  description: "Asks another agent",
  inputSchema: v.object({ conversationId: v.string() }),
  execute: async ({ conversationId }, { runtime }) => runtime.ask(inner, "short", { conversationId }),
});
const agent = defineAgent({ id: "a", instructions: "x", model: scriptedModel(script), tools: { nest } });
const workflow = defineWorkflow({ id: "w", input: v.object({ prompt: v.string() }) }).andAgent({
  id: "ask",
  agent,
  prompt: ({ data }) => data.prompt,
});
// 100 kB count as 500 kB: two histories fit, and a third does not.
const limits = { inFlightBytes: 1_100_000, drainMs: 1 };
const config = { agents: [agent, inner], workflows: [workflow], server: { limits } };

let count = 0;
describeServer("a stored conversation", { config, only: ["start"] }, (server) => {
  const ask = (conversationId: string, input: string, agentId = "a") =>
    server.post(`/agents/${agentId}/text`, { input, options: { conversationId } });
  /** A conversation with a message of this size, that nothing uses. */
  async function createConversation(bytes = 100_000, agentId = "a"): Promise<string> {
    const id = `${server.target} ${++count}`;
    await eventually(async () => expect((await ask(id, "x".repeat(bytes), agentId)).status).toBe(200));
    return id;
  }
  /** A call on a conversation that waits in its model. It is refused until the bytes of earlier requests are released. */
  async function hold(id: string): Promise<{ readonly reply: ReturnType<typeof ask> }> {
    for (;;) {
      const reply = ask(id, `wait ${id}`);
      const refused = await Promise.race([gates.reached(id).then(() => undefined), reply]);
      if (!refused) return { reply };
      expect(refused.status).toBe(503);
    }
  }
  /** Waits until no bytes are in flight: a body that would not fit beside any is admitted. */
  const untilFree = (): Promise<void> =>
    eventually(async () => expect((await ask(`${server.target} ${++count}`, "x".repeat(1_000_000))).status).toBe(200));

  it("a conversation is a part of the bytes in flight until its call has ended", async () => {
    const [one, two, three] = [await createConversation(), await createConversation(), await createConversation()];
    await untilFree();
    const waiting = [await hold(one!), await hold(two!)];
    const { status, headers, body } = await ask(three!, "short");
    expect([status, headers.get("retry-after"), body.error]).toEqual([503, "1", "Too much data in flight"]);
    const streamed = await server.post("/agents/a/stream", { input: "short", options: { conversationId: three } });
    expect(streamed.status).toBe(503);
    // Neither has a small conversation to wait.
    expect((await ask(`${server.target} small`, "short")).status).toBe(200);
    gates.open(one!);
    expect((await waiting[0]!.reply).status).toBe(200);
    await eventually(async () => expect((await ask(three!, "short")).status).toBe(200));
    gates.open(two!);
    expect((await waiting[1]!.reply).status).toBe(200);
  });

  it("a conversation of any size is admitted while there is no other, also beside the body of its own request", async () => {
    const large = await createConversation(1_500_000);
    await untilFree();
    await eventually(async () => expect((await ask(large, "short")).status).toBe(200));
    await eventually(async () => expect((await ask(large, "x".repeat(50_000))).status).toBe(200));
  });

  it("a conversation is waited for by a step, which is not refused", async () => {
    const [one, two] = [await createConversation(), await createConversation(150_000)];
    await untilFree();
    const { reply } = await hold(one);
    const input = { prompt: "short" };
    const begun = await execute(server, { input, options: { conversationId: two } });
    // It waits: a third one that is as small as the rest of the budget is admitted meanwhile.
    const three = await createConversation(90_000);
    await eventually(async () => expect((await ask(three, "short")).status).toBe(200));
    expect(await stateOf(server, begun)).toMatchObject({ status: "running" });
    gates.open(one);
    expect((await reply).status).toBe(200);
    await eventually(async () =>
      expect(await stateOf(server, begun)).toMatchObject({ status: "completed", result: "ok" }),
    );
  });

  it("a conversation that is deleted while a step waits for its place leaves the step with an error that says so", async () => {
    const [one, two] = [await createConversation(), await createConversation(150_000)];
    await untilFree();
    const { reply } = await hold(one);
    const begun = await execute(server, { input: { prompt: "short" }, options: { conversationId: two } });
    await eventually(async () => {
      const { body } = await server.get("/agents/a/conversations");
      expect(body.data.items.find(({ id }: { id: string }) => id === two).running).toBe(true);
    });
    expect((await server.send(`/agents/a/conversations/${encodeURIComponent(two)}`, { method: "DELETE" })).status).toBe(
      200,
    );
    gates.open(one);
    expect((await reply).status).toBe(200);
    await eventually(async () => expect(await stateOf(server, begun)).toMatchObject({ status: "error" }));
    expect(server.logs.filter(({ data }) => String(data?.["error"]).includes("TypeError"))).toEqual([]);
  });

  it("a conversation is not waited for by a call that a tool makes, whose own call uses all bytes", async () => {
    const [outer, own] = [await createConversation(300_000), await createConversation(300_000, "inner")];
    await untilFree();
    const begun = await execute(server, { input: { prompt: `nest ${own}` }, options: { conversationId: outer } });
    await eventually(async () => expect(await stateOf(server, begun)).toMatchObject({ status: "completed" }));
    await within(untilFree(), "the bytes to be released");
  });
});

async function execute(server: TestServer, body: object): Promise<string> {
  const { body: reply } = await server.post("/workflows/w/execute", body, { headers: { prefer: "respond-async" } });
  return reply.data.executionId;
}
const stateOf = async (server: TestServer, id: string): Promise<any> =>
  (await server.get(`/workflows/w/executions/${id}/state`)).body.data;
