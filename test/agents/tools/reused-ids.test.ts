// Two calls with the same id that share an idempotency key make a test of this file fail.
import { defineAgent, defineTool, defineWorkflow, workflowTool } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { unique } from "../turns/turn-server.ts";

const input = v.object({ amount: v.number() });
const pay = defineWorkflow({ id: "pay", input }).andThen({ id: "pay", execute: ({ data }) => data.amount });
const keys = new Map<string, number>();
const charge = defineTool({
  description: "Charges",
  inputSchema: input,
  execute({ amount }, { idempotencyKey }) {
    keys.set(idempotencyKey, amount);
    return amount;
  },
});
/** A model that calls the tool of the question with 1, then with 2, by the same id. Its answer has the results. */
const twice: ScriptedStep = ({ prompt }) => {
  const since = prompt.findLastIndex(({ role }) => role === "user");
  const toolName = (prompt[since]!.content as any[])[0].text;
  const results = prompt.slice(since).flatMap(({ role, content }) => (role === "tool" ? content : [])) as any[];
  if (results.length === 2) return JSON.stringify(results.map(({ output }) => output.value));
  return { toolCalls: [{ toolName, input: { amount: results.length + 1 }, toolCallId: "call_0" }] };
};
const agent = defineAgent({
  id: "a",
  instructions: "x",
  model: scriptedModel(Array.from({ length: 1_000 }, () => twice)),
  tools: { pay: workflowTool(pay), charge },
  maxRetries: 0,
});

const config = { agents: [agent], workflows: [pay] };
describeServer("a model that uses the id of a call again", { config, only: ["in process"] }, (server) => {
  it.each(["with", "without"])("has each of its tools run, %s a conversation", async (how) => {
    const options = how === "with" ? { conversationId: unique("c") } : {};
    const paid = await server.post("/agents/a/text", { input: "pay", options });
    expect(paid.body.data.text).toBe("[1,2]");
    keys.clear();
    const charged = await server.post("/agents/a/text", { input: "charge", options });
    expect(charged.body.data.text).toBe("[1,2]");
    expect([...keys.values()]).toEqual([1, 2]);
  });
});
