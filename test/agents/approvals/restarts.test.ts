// Each of these changes makes a test of this file fail: calls that wait in memory only; an input of the client; needsApproval that
// is asked again; a new id after a restart. faults/approvals has decisions that a crash interrupts.
import { DatabaseSync } from "node:sqlite";
import { defineTool, type Tool } from "agentserve";
import type { ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { createGates } from "../../harness/gates.ts";
import { eventually } from "../../harness/waiting.ts";
import { newFile } from "../../harness/folders.ts";
import { held, live as liveAgent } from "../turns/lives.ts";
import { openReader } from "../turns/turn-server.ts";

const options = { userId: "ada", conversationId: "c" };
const payFive = { toolName: "pay", input: { amount: 5 }, toolCallId: "p1" };
const call: ScriptedStep = { toolCalls: [payFive] };
const never = (): never => expect.unreachable();

const createPay = (run: (amount: number, context: any) => unknown, needsApproval = () => true): Tool =>
  defineTool({
    description: "Pays",
    inputSchema: v.object({ amount: v.number() }),
    needsApproval,
    execute: ({ amount }, { context }) => run(amount, context),
  });

async function live(file: string, script: ScriptedStep[], tools: Record<string, Tool>) {
  const life = await liveAgent(file, { script, agent: { tools } });
  const { server } = life;
  return {
    ...life,
    /** Asks for a payment, and returns its approval. */
    request: async (): Promise<string> => (await life.ask("Pay")).body.data.approvals[0].approvalId,
    decide: (id: string, approved = true, headers = {}) =>
      server.post(`/approvals/${id}?userId=ada`, { approved }, { headers }),
    items: async (): Promise<any[]> => (await server.get("/approvals?userId=ada")).body.data.items,
    parts: async (): Promise<any[]> =>
      (await server.get("/agents/a/conversations/c?userId=ada")).body.data.messages.at(-1).parts,
  };
}

it("an approval waits over a restart, and runs exactly the stored input, with the context of the call that asked", async () => {
  const file = newFile();
  const ran: unknown[] = [];
  const first = await live(file, [call], { pay: createPay(never) });
  const id = await first.request();
  await first.close();
  const note = (amount: number, { userId, context, approvedBy }: any) =>
    ran.push([amount, userId, context.get("tenant"), approvedBy]);
  const second = await live(file, ["Done."], { pay: createPay(note) });
  expect(await second.items()).toMatchObject([{ approvalId: id, input: { amount: 5 } }]);
  expect(await second.decide(id)).toMatchObject({ status: 200, body: { data: { text: "Done." } } });
  expect(ran).toEqual([[5, "ada", "t", { id: "ada" }]]);
  await second.close();
  const third = await live(file, [], { pay: createPay(never) });
  expect(await third.decide(id, false)).toMatchObject({ status: 409, body: { error: "Already decided: approved" } });
  expect(await third.decide(id)).toMatchObject({ status: 200, body: { data: { approved: true, status: "idle" } } });
});

it.each([true, false])(
  "an approval ends with a stored error if its tool no longer exists, and the turn continues (with other tools: %s)",
  async (hasOthers) => {
    const file = newFile();
    const first = await live(file, [call], { pay: createPay(never) });
    const id = await first.request();
    await first.close();
    const tools: Record<string, Tool> = hasOthers ? { other: createPay(never) } : {};
    const { model, decide, parts, items } = await live(file, ["Done."], tools);
    expect(await decide(id)).toMatchObject({ status: 200, body: { data: { text: "Done." } } });
    const part = (await parts()).find(({ type }) => type === "tool-pay");
    expect(part).toMatchObject({ state: "output-error", errorText: "Tool pay no longer exists" });
    expect(model.calls[0]!.tools?.map(({ name }) => name) ?? []).toEqual(Object.keys(tools));
    expect(JSON.stringify(model.calls[0]!.prompt)).toContain("Tool pay no longer exists");
    expect(await items()).toEqual([]);
  },
);

it("leaves no pending call in the file when its conversation is deleted", async () => {
  const file = newFile();
  const { server, request, decide } = await live(file, [call, "Done.", call], { pay: createPay(() => "paid") });
  await decide(await request());
  await request();
  const count = (): number => {
    const db = new DatabaseSync(file, { readOnly: true });
    const [row] = db.prepare("select count(*) as count from pending_calls").all();
    db.close();
    return Number(row!["count"]);
  };
  expect(count()).toBe(2);
  expect((await server.send("/agents/a/conversations/c?userId=ada", { method: "DELETE" })).status).toBe(200);
  expect(count()).toBe(0);
});

it("does not run an approved tool again whose result is recorded", async () => {
  const file = newFile();
  let ran = 0;
  const pay = createPay(() => `paid ${++ran}`);
  const model = held("Never said.");
  const first = await live(file, [call, model.step], { pay });
  await first.decide(await first.request(), true, { prefer: "respond-async" });
  await model.reached;
  await first.close();
  const { parts } = await live(file, ["Done."], { pay });
  await eventually(async () => expect((await parts()).at(-1)).toMatchObject({ text: "Done." }));
  expect((await parts()).find(({ type }) => type === "tool-pay")).toMatchObject({ output: "paid 1" });
  expect(ran).toBe(1);
});

it("asks needsApproval once, and gives one id, in a turn that is interrupted before it waits", async () => {
  const file = newFile();
  const gates = createGates();
  let asked = 0;
  const tools = {
    pay: createPay(never, () => ++asked > 0),
    slow: defineTool({ description: "Waits", inputSchema: v.object({}), execute: () => gates.pass("slow") }),
  };
  // Both calls are of one answer: the second one is a tool that runs, and does not end before the restart.
  const first = await live(file, [{ toolCalls: [payFive, { toolName: "slow", input: {}, toolCallId: "s1" }] }], tools);
  const reader = await openReader(first.server, "/agents/a/stream", { input: "Pay", options });
  const events = await reader.readUntil(({ type }) => type === "tool-approval-request");
  const { approvalId } = events.find(({ type }) => type === "tool-approval-request");
  await gates.reached("slow");
  await first.close();
  reader.leave();
  const { items } = await live(file, ["Done."], tools);
  gates.open("slow");
  await eventually(async () => expect(await items()).toMatchObject([{ approvalId }]));
  expect(asked).toBe(1);
});
