// Each of these changes makes a test of this file fail: calls that wait in memory only; an input of the client; a decision that is
// not in the commit of its turn; an approver that is not stored; needsApproval that is asked again; a new id after a restart.
import { defineAgent, defineTool, embedded, type Tool } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { expect, it, onTestFinished } from "vitest";
import { DatabaseSync } from "node:sqlite";
import { createGates } from "../../harness/gates.ts";
import { startServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { newFile } from "../../workflows/waits/serve.ts";

const options = { userId: "ada", conversationId: "c", context: { tenant: "t" } };
const call: ScriptedStep = { toolCalls: [{ toolName: "pay", input: { amount: 5 }, toolCallId: "p1" }] };

async function live(
  file: string,
  script: ScriptedStep[],
  run: (amount: number, more: any) => unknown,
  asked = () => {},
) {
  const pay = defineTool({
    description: "Pays",
    inputSchema: v.object({ amount: v.number() }),
    needsApproval: () => (asked(), true),
    execute: ({ amount }, { context, idempotencyKey }) => run(amount, { context, idempotencyKey }),
  });
  const model = scriptedModel(script);
  const agent = defineAgent({ id: "a", instructions: "x", model, maxRetries: 0, tools: { pay } });
  const server = await startServer("in process", {
    config: { agents: [agent], backend: embedded({ path: file }), server: { limits: { drainMs: 1 } } },
  });
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= server.close());
  onTestFinished(close);
  return { server, model, close };
}

it("waits over a restart, and runs exactly the stored input, with the context of the call that asked", async () => {
  const file = newFile();
  const ran: unknown[] = [];
  const never = () => expect.unreachable();
  const first = await live(file, [call], never);
  const { body } = await first.server.post("/agents/a/text", { input: "Pay", options });
  const [{ approvalId }] = body.data.approvals;
  await first.close();
  const second = await live(file, ["Done."], (amount, { context }) => {
    ran.push([amount, context.userId, context.context.get("tenant"), context.approvedBy]);
  });
  const { items } = (await second.server.get("/approvals?userId=ada")).body.data;
  expect(items).toMatchObject([{ approvalId, input: { amount: 5 } }]);
  const decided = await second.server.post(`/approvals/${approvalId}?userId=ada`, { approved: true });
  expect(decided).toMatchObject({ status: 200, body: { data: { text: "Done." } } });
  expect(ran).toEqual([[5, "ada", "t", { id: "ada" }]]);
  await second.close();
  const third = await live(file, [], never);
  const again = await third.server.post(`/approvals/${approvalId}?userId=ada`, { approved: false });
  expect(again).toMatchObject({ status: 409, body: { error: "Already decided: approved" } });
});

it.each([true, false])(
  "ends with an error that is stored if the tool no longer exists, and the turn continues (with other tools: %s)",
  async (hasOthers) => {
    const file = newFile();
    const first = await live(file, [call], () => expect.unreachable());
    const { body } = await first.server.post("/agents/a/text", { input: "Pay", options });
    const [{ approvalId }] = body.data.approvals;
    await first.close();
    const other = defineTool({ description: "x", inputSchema: v.object({}), execute: () => "x" });
    const tools: Record<string, Tool> = hasOthers ? { other } : {};
    const model = scriptedModel(["Done."]);
    const agent = defineAgent({ id: "a", instructions: "x", model, maxRetries: 0, tools });
    const server = await startServer("in process", { config: { agents: [agent], backend: embedded({ path: file }) } });
    onTestFinished(() => server.close());
    const decided = await server.post(`/approvals/${approvalId}?userId=ada`, { approved: true });
    expect(decided).toMatchObject({ status: 200, body: { data: { text: "Done." } } });
    const { messages } = (await server.get("/agents/a/conversations/c?userId=ada")).body.data;
    const part = messages.at(-1).parts.find(({ type }: any) => type === "tool-pay");
    expect(part).toMatchObject({ state: "output-error", errorText: "Tool pay no longer exists" });
    expect(model.calls[0]!.tools?.map(({ name }) => name) ?? []).toEqual(Object.keys(tools));
    expect(JSON.stringify(model.calls[0]!.prompt)).toContain("Tool pay no longer exists");
    expect((await server.get("/approvals?userId=ada")).body.data.items).toEqual([]);
  },
);

it("continues a turn that a decision has begun, with the same key and approver", async () => {
  const file = newFile();
  const gates = createGates();
  const ran: unknown[] = [];
  const note = (amount: number, { context, idempotencyKey }: any) =>
    ran.push([amount, idempotencyKey, context.approvedBy]);
  const first = await live(file, [call], async (amount, more) => {
    note(amount, more);
    await gates.pass("tool");
  });
  const { body } = await first.server.post("/agents/a/text", { input: "Pay", options });
  const [{ approvalId }] = body.data.approvals;
  const init = { headers: { prefer: "respond-async" } };
  const begun = await first.server.post(`/approvals/${approvalId}?userId=ada`, { approved: true }, init);
  expect(begun).toMatchObject({ status: 202, body: { data: { conversationId: "c", status: "running" } } });
  await gates.reached("tool");
  await first.close();
  const second = await live(file, ["Done."], note);
  const messages = async () =>
    (await second.server.get("/agents/a/conversations/c?userId=ada")).body.data.messages as any[];
  await eventually(async () => expect((await messages()).at(-1).parts.at(-1)).toMatchObject({ text: "Done." }));
  expect(ran).toHaveLength(2);
  expect(ran[1]).toEqual(ran[0]);
  expect((await second.server.get("/approvals?userId=ada")).body.data.items).toEqual([]);
});

it("leaves nothing in the file when its conversation is deleted", async () => {
  const file = newFile();
  const { server, close } = await live(file, [call, "Done.", call], () => "paid");
  const ask = async () => (await server.post("/agents/a/text", { input: "Pay", options })).body.data.approvals[0];
  const { approvalId } = await ask();
  await server.post(`/approvals/${approvalId}?userId=ada`, { approved: true });
  await ask();
  const count = (): number => {
    const db = new DatabaseSync(file, { readOnly: true });
    const [row] = db.prepare("select count(*) as count from pending_calls").all();
    db.close();
    return Number(row!["count"]);
  };
  expect(count()).toBe(2);
  expect((await server.send("/agents/a/conversations/c?userId=ada", { method: "DELETE" })).status).toBe(200);
  expect(count()).toBe(0);
  await close();
});

it("does not run an approved tool again whose result is recorded", async () => {
  const file = newFile();
  const gates = createGates();
  let ran = 0;
  const run = () => `paid ${++ran}`;
  const never: ScriptedStep = async () => {
    await gates.pass("model");
    return "Never said.";
  };
  const first = await live(file, [call, never], run);
  const { body } = await first.server.post("/agents/a/text", { input: "Pay", options });
  const [{ approvalId }] = body.data.approvals;
  const init = { headers: { prefer: "respond-async" } };
  await first.server.post(`/approvals/${approvalId}?userId=ada`, { approved: true }, init);
  await gates.reached("model");
  await first.close();
  const second = await live(file, ["Done."], run);
  const parts = async (): Promise<any[]> =>
    (await second.server.get("/agents/a/conversations/c?userId=ada")).body.data.messages.at(-1).parts;
  await eventually(async () => expect((await parts()).at(-1)).toMatchObject({ text: "Done." }));
  expect((await parts()).find(({ type }) => type === "tool-pay")).toMatchObject({ output: "paid 1" });
  expect(ran).toBe(1);
});

it("asks needsApproval once, and gives one id, in a turn that is interrupted before it waits", async () => {
  const file = newFile();
  const gates = createGates();
  let asked = 0;
  // Both calls are of one answer: the second one is a tool that runs, and does not end before the restart.
  const both: ScriptedStep = {
    toolCalls: [
      { toolName: "pay", input: { amount: 5 }, toolCallId: "p1" },
      { toolName: "slow", input: {}, toolCallId: "s1" },
    ],
  };
  const ids: string[] = [];
  const open = async (script: ScriptedStep[]) => {
    const tools = {
      pay: defineTool({
        description: "Pays",
        inputSchema: v.object({ amount: v.number() }),
        needsApproval: () => ++asked > 0,
        execute: () => "paid",
      }),
      slow: defineTool({ description: "Waits", inputSchema: v.object({}), execute: () => gates.pass("slow") }),
    };
    const agent = defineAgent({ id: "a", instructions: "x", model: scriptedModel(script), maxRetries: 0, tools });
    const config = { agents: [agent], backend: embedded({ path: file }), server: { limits: { drainMs: 1 } } };
    const server = await startServer("in process", { config });
    let closing: Promise<void> | undefined;
    const close = (): Promise<void> => (closing ??= server.close());
    onTestFinished(close);
    return { server, close };
  };
  const first = await open([both]);
  const response = await first.server.send("/agents/a/stream", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input: "Pay", options }),
  });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("tool-approval-request")) text += (await reader.read()).value ?? "";
  ids.push(/"approvalId":"(\w+)"/.exec(text)![1]!);
  await gates.reached("slow");
  await first.close();
  await reader.cancel().catch(() => {});
  const second = await open(["Done."]);
  gates.open("slow");
  const items = async () => (await second.server.get("/approvals?userId=ada")).body.data.items as any[];
  await eventually(async () => expect(await items()).toHaveLength(1));
  ids.push((await items())[0].approvalId);
  expect(ids[1]).toBe(ids[0]);
  expect(asked).toBe(1);
});
