// Each of these changes makes a test of this file fail: two calls with the same id that share an idempotency key; an approval that
// counts for a later call with the same id.
import { defineTool, defineWorkflow, workflowTool } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { decide } from "../approvals/bank.ts";
import { toAgent, unique } from "../turns/turn-server.ts";

const input = v.object({ amount: v.number() });
const pay = defineWorkflow({ id: "pay", input }).andThen({ id: "pay", execute: ({ data }) => data.amount });
const keys = new Map<string, number>();
const charge = (needsApproval: boolean) =>
  defineTool({
    description: "Charges",
    inputSchema: input,
    needsApproval,
    execute({ amount }, { idempotencyKey }) {
      keys.set(idempotencyKey, amount);
      return amount;
    },
  });
/** A model that calls the tool of the question with 1, then with 2, by the same id. Its answer has the results. */
const twice: ScriptedStep = ({ prompt }) => {
  const since = prompt.findLastIndex(({ role }) => role === "user");
  const toolName = (prompt[since]!.content as any[])[0].text;
  const parts = prompt.slice(since).flatMap(({ role, content }) => (role === "tool" ? content : [])) as any[];
  const results = parts.filter(({ type }) => type === "tool-result");
  if (results.length === 2) return JSON.stringify(results.map(({ output }) => output.value ?? output.type));
  return { toolCalls: [{ toolName, input: { amount: results.length + 1 }, toolCallId: "call_0" }] };
};
const model = scriptedModel(Array.from({ length: 1_000 }, () => twice));
const tools = { pay: workflowTool(pay), charge: charge(false), guarded: charge(true) };
const agent = toAgent(model, "a", { tools });

const config = { agents: [agent], workflows: [pay] };
describeServer("a model that uses the id of a call again", { config, only: ["in process"] }, (server) => {
  it.each(["with", "without"])("runs both of two calls with the same id, %s a conversation", async (how) => {
    const options = how === "with" ? { conversationId: unique("c") } : {};
    const paid = await server.post("/agents/a/text", { input: "pay", options });
    expect(paid.body.data.text).toBe("[1,2]");
    keys.clear();
    const charged = await server.post("/agents/a/text", { input: "charge", options });
    expect(charged.body.data.text).toBe("[1,2]");
    expect([...keys.values()]).toEqual([1, 2]);
  });

  it.each([false, true])(
    "asks for an approval of each of two calls with the same id: the second is %s",
    async (approved) => {
      keys.clear();
      const options = { conversationId: unique("c") };
      const first = await server.post("/agents/a/text", { input: "guarded", options });
      const second = (await decide(server, first.body.data.approvals[0].approvalId)).body.data;
      expect(second).toMatchObject({ finishReason: "approval", approvals: [{ input: { amount: 2 } }] });
      const last = await decide(server, second.approvals[0].approvalId, { approved });
      expect(last.body.data.text).toBe(approved ? "[1,2]" : '[1,"execution-denied"]');
      expect([...keys.values()]).toEqual(approved ? [1, 2] : [1]);
    },
  );
});
