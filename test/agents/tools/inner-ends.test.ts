// Each of these changes makes a test of this file fail: a turn that fails without the text of the inner agent; a stop that leaves
// a call waiting; a part that a client cannot send back.
import { agentTool, defineAgent, defineTool } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { decide } from "../approvals/bank.ts";
import { attach, createPlannedModel, openReader, read, stop, toAgent, unique } from "../turns/turn-server.ts";
import { directedModel, toCalls } from "./directed-model.ts";

const planned = createPlannedModel();
const pay = defineTool({
  description: "Pays",
  inputSchema: v.object({ to: v.string() }),
  needsApproval: true,
  async execute({ to }) {
    if (to.startsWith("slow")) await planned.gates.pass(to);
    return `paid to ${to}`;
  },
});
const wait = defineTool({
  description: "Waits",
  inputSchema: v.object({ name: v.string() }),
  execute: ({ name }) => planned.gates.pass(name),
});
const inner = defineAgent({ id: "inner", instructions: "x", model: directedModel(), tools: { pay } });
const tools = { inner: agentTool(inner, { description: "Asks" }), pay, wait };
const outer = toAgent(planned.model, "outer", { tools });

const config = { agents: [outer, inner] };
describeServer("a turn that continues an agent which a tool has asked", { config, only: ["in process"] }, (server) => {
  const asksInner = (...to: string[]) => ({
    toolName: "inner",
    input: { prompt: toCalls(...to.map((one) => ["pay", { to: one }] as const)) },
    toolCallId: "i",
  });
  const request = async (toolCalls: object[], ...then: any[]) => {
    const [question, conversationId] = [unique("question"), unique("c")];
    planned.plan(question, { toolCalls } as never, ...then);
    const { body } = await server.post("/agents/outer/text", { input: question, options: { conversationId } });
    return { conversationId, approvals: body.data.approvals as any[] };
  };
  const partsOf = async (conversationId: string): Promise<any[]> =>
    (await read(server, "outer", conversationId))[1]!.parts.filter((part) => "toolCallId" in part);
  /** Sends all messages back, and a new one. */
  async function next(conversationId: string): Promise<string> {
    const question = unique("next");
    planned.plan(question, "Hello.");
    const message = { id: unique("m"), role: "user", parts: [{ type: "text", text: question }] };
    const messages = [...(await read(server, "outer", conversationId)), message];
    const { status } = await server.post("/agents/outer/chat", { id: conversationId, messages });
    expect(status).toBe(200);
    return planned.prompts(question)[0]!.join("\n");
  }
  const stopNow = (conversationId: string) =>
    eventually(async () =>
      expect(await stop(server, "outer", conversationId)).toMatchObject({ body: { data: { stopped: true } } }),
    );

  it.each([true, false])("keeps the text of an inner agent if the turn fails (approved: %s)", async (approved) => {
    const to = unique("to");
    const fail = () => {
      throw new Error("The model is down");
    };
    const { conversationId, approvals } = await request([asksInner(to)], fail);
    expect((await decide(server, approvals[0].approvalId, { approved })).status).toBe(502);
    const output = JSON.stringify([approved ? `paid to ${to}` : "execution-denied"]);
    expect(await partsOf(conversationId)).toMatchObject([{ state: "output-available", output }]);
    expect((await decide(server, approvals[0].approvalId, { approved: !approved })).status).toBe(409);
    expect((await decide(server, approvals[0].approvalId, { approved })).status).toBe(200);
    expect(await next(conversationId)).toContain(`[inner → ${JSON.stringify(output)}]`);
  });

  it("ends the call of an inner agent with the error Stopped if it is stopped, also after a denial", async () => {
    const to = unique("slow");
    const { conversationId, approvals } = await request([asksInner(to, "other")]);
    const { body } = await decide(server, approvals[0].approvalId);
    const deciding = decide(server, body.data.approvals[0].approvalId, { approved: false });
    await planned.gates.reached(to);
    await stopNow(conversationId);
    expect(await deciding).toMatchObject({ status: 409, body: { error: "The turn was stopped" } });
    planned.gates.open(to);
    expect(await partsOf(conversationId)).toMatchObject([{ state: "output-error", errorText: "Stopped" }]);
    expect(await next(conversationId)).toContain('[inner → "Stopped"]');
  });

  it("ends an inner call that waits again if the turn is stopped while another call runs", async () => {
    const [to, slow] = [unique("to"), unique("slow")];
    const own = { toolName: "pay", input: { to: slow }, toolCallId: "p" };
    const { conversationId, approvals } = await request([asksInner(to, `${to}-2`), own]);
    const first = approvals.find(({ via }) => via).approvalId;
    await decide(server, first);
    const deciding = decide(server, approvals.find(({ via }) => !via).approvalId);
    await planned.gates.reached(slow);
    const reader = await attach(server, "outer", conversationId);
    await reader.readUntil(({ type, approvalId }) => type === "tool-approval-request" && approvalId !== first);
    await stopNow(conversationId);
    await deciding;
    await reader.rest();
    planned.gates.open(slow);
    expect(await partsOf(conversationId)).toMatchObject([
      { state: "output-error", errorText: "Stopped" },
      { state: "output-error", errorText: "Stopped" },
    ]);
    expect((await server.get("/approvals?limit=200")).body.data.items).not.toContainEqual(
      expect.objectContaining({ conversationId }),
    );
    expect(await next(conversationId)).toContain('[inner → "Stopped"]');
  });

  it.each(["inner", "pay"])("a client can send back a message that was stopped while %s waits", async (name) => {
    const [question, conversationId, gate] = [unique("question"), unique("c"), unique("gate")];
    const waiting = name === "inner" ? asksInner("x") : { toolName: "pay", input: { to: "x" }, toolCallId: "i" };
    const toolCalls = [waiting, { toolName: "wait", input: { name: gate }, toolCallId: "w" }];
    planned.plan(question, { toolCalls } as never);
    const reader = await openReader(server, "/agents/outer/stream", { input: question, options: { conversationId } });
    await planned.gates.reached(gate);
    await reader.readUntil(({ type }) => type === "tool-approval-request");
    await stopNow(conversationId);
    await reader.rest();
    planned.gates.open(gate);
    expect(await partsOf(conversationId)).toMatchObject([
      { state: "output-error", errorText: "Stopped" },
      { state: "output-error", errorText: "Stopped" },
    ]);
    expect(await next(conversationId)).toContain(`[${name} → "Stopped"]`);
  });
});
