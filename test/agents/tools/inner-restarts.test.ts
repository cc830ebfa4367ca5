// Each of these changes makes a test of this file fail: the state of the inner agent in memory only; an inner call that is made
// again after a restart; an approval that another tool of the same name gets.
import { join } from "node:path";
import { agentTool, defineTool, type Tool } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { createGates } from "../../harness/gates.ts";
import { openPlace } from "../../harness/places.ts";
import { startTestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { openReader, toAgent } from "../turns/turn-server.ts";

const options = { userId: "ada", conversationId: "c", context: { tenant: "t" } };
const call = (toolName: string, input: object, toolCallId = toolName): ScriptedStep => ({
  toolCalls: [{ toolName, input, toolCallId }],
});
const askInner = call("inner", { prompt: "please" });
const payFive = call("pay", { amount: 5 });

interface Life {
  readonly outer?: ScriptedStep[];
  readonly inner?: ScriptedStep[];
  readonly run?: (amount: number, more: any) => unknown;
  /** Replaces the tools. */
  readonly innerTools?: object;
  readonly outerTools?: object;
}

function createPlace() {
  const folder = createFolder("inner");
  return async ({ outer = [], inner = [], run = () => expect.unreachable(), innerTools, outerTools }: Life) => {
    const pay: Tool = defineTool({
      description: "Pays",
      inputSchema: v.object({ amount: v.number() }),
      needsApproval: true,
      execute: ({ amount }, { context, idempotencyKey }) => run(amount, { context, idempotencyKey }),
    });
    const models = { outer: scriptedModel(outer), inner: scriptedModel(inner) };
    const innerAgent = toAgent(models.inner, "inner", { tools: innerTools ?? ({ pay } as any) });
    const tools: any = outerTools ?? { inner: agentTool("inner", { description: "Asks" }) };
    const outerAgent = toAgent(models.outer, "outer", { tools });
    const other = toAgent(scriptedModel([]), "other");
    const server = await startTestServer("in process", {
      config: {
        agents: [outerAgent, innerAgent, other],
        backend: await openPlace(join(folder, "data.db")),
        server: { limits: { drainMs: 1 } },
      },
    });
    const parts = async (): Promise<any[]> =>
      (await server.get("/agents/outer/conversations/c?userId=ada")).body.data.messages.at(-1).parts;
    const ask = async (): Promise<string> => {
      const { body } = await server.post("/agents/outer/text", { input: "Pay", options });
      return body.data.approvals[0].approvalId;
    };
    const decide = (id: string, approved = true, headers = {}) =>
      server.post(`/approvals/${id}?userId=ada`, { approved }, { headers });
    const part = async () => (await parts()).find(({ toolCallId }) => toolCallId !== undefined);
    return { server, models, close: server.close, parts, part, ask, decide };
  };
}
const async_ = { prefer: "respond-async" };

it("an inner approval waits over a restart, and continues the inner agent with the stored input", async () => {
  const open = createPlace();
  const first = await open({ outer: [askInner], inner: [payFive] });
  const id = await first.ask();
  await first.close();
  const ran: unknown[] = [];
  const second = await open({
    outer: ["Done."],
    inner: ["Inner done."],
    run: (amount, { context }) => ran.push([amount, context.userId, context.context.get("tenant"), context.approvedBy]),
  });
  expect((await second.server.get("/approvals?userId=ada")).body.data.items).toMatchObject([
    { approvalId: id, via: ["inner"] },
  ]);
  expect(await second.decide(id)).toMatchObject({ status: 200, body: { data: { text: "Done." } } });
  expect(ran).toEqual([[5, "ada", "t", { id: "ada" }]]);
  expect(await second.part()).toMatchObject({ state: "output-available", output: "Inner done." });
  await second.close();
  const third = await open({});
  expect(await third.decide(id, false)).toMatchObject({ status: 409, body: { error: "Already decided: approved" } });
});

it("continues a turn that an inner approval has begun with the same key, and runs nothing recorded again", async () => {
  const open = createPlace();
  const gates = createGates();
  const ran: unknown[] = [];
  const note = (amount: number, { context, idempotencyKey }: any) =>
    ran.push([amount, idempotencyKey, context.approvedBy]);
  const first = await open({
    outer: [askInner],
    inner: [payFive],
    run: async (...run) => {
      note(...run);
      await gates.pass("tool");
    },
  });
  const id = await first.ask();
  expect((await first.decide(id, true, async_)).status).toBe(202);
  await gates.reached("tool");
  await first.close();
  const hold = async () => {
    await gates.pass("model");
    return "Never said.";
  };
  const second = await open({ inner: [hold], run: note });
  await gates.reached("model");
  await second.close();
  expect(ran).toHaveLength(2);
  expect(ran[1]).toEqual(ran[0]);
  expect((ran[0] as string[])[1]).toMatch(/\/inner\/pay$/);
  const third = await open({ outer: ["Done."], inner: ["Inner done."] });
  await eventually(async () => expect((await third.parts()).at(-1)).toMatchObject({ text: "Done." }));
  expect(await third.part()).toMatchObject({ output: "Inner done." });
  expect([third.models.inner.calls.length, third.models.outer.calls.length]).toEqual([1, 1]);
});

it("gives an inner approval the same id, and asks no model again, if its turn is interrupted before it waits", async () => {
  const open = createPlace();
  const gates = createGates();
  const slow = defineTool({ description: "Waits", inputSchema: v.object({}), execute: () => gates.pass("slow") });
  const outerTools = { inner: agentTool("inner", { description: "Asks" }), slow };
  const both: ScriptedStep = {
    toolCalls: [
      { toolName: "inner", input: { prompt: "please" }, toolCallId: "i1" },
      { toolName: "slow", input: {}, toolCallId: "s1" },
    ],
  };
  const first = await open({ outer: [both], inner: [payFive], outerTools });
  const reader = await openReader(first.server, "/agents/outer/stream", { input: "Pay", options });
  const events = await reader.readUntil(({ type }) => type === "tool-approval-request");
  const id: string = events.find(({ type }) => type === "tool-approval-request").approvalId;
  await gates.reached("slow");
  await first.close();
  reader.leave();
  const second = await open({ outer: ["Done."], inner: ["Inner done."], run: () => "paid", outerTools });
  gates.open("slow");
  const items = async () => (await second.server.get("/approvals?userId=ada")).body.data.items as any[];
  await eventually(async () => expect(await items()).toHaveLength(1));
  expect((await items())[0].approvalId).toBe(id);
  expect([second.models.inner.calls.length, second.models.outer.calls.length]).toEqual([0, 0]);
  expect((await second.decide(id)).body.data.text).toBe("Done.");
});

const plain = defineTool({ description: "x", inputSchema: v.any(), execute: () => expect.unreachable() });
it.each([
  ["whose tool is gone", { innerTools: {} }, "Tool pay no longer exists"],
  [
    "that the tool no longer asks",
    { outerTools: { inner: agentTool("other", { description: "x" }) } },
    "Tool inner no longer asks agent inner",
  ],
  ["whose tool is gone from the outer agent", { outerTools: {} }, "Tool inner no longer exists"],
  ["whose tool has become another one", { outerTools: { inner: plain } }, "Tool inner no longer asks agent inner"],
])("an inner approval ends with a stored error for an agent %s", async (_, changed, error) => {
  const open = createPlace();
  const first = await open({ outer: [askInner], inner: [payFive] });
  const id = await first.ask();
  await first.close();
  const second = await open({ outer: ["Done."], ...changed });
  expect(await second.decide(id)).toMatchObject({ status: 200, body: { data: { text: "Done." } } });
  expect(await second.part()).toMatchObject({ state: "output-error", errorText: error });
  expect((await second.server.get("/approvals?userId=ada")).body.data.items).toEqual([]);
});
