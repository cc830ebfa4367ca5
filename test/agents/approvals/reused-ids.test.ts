// An approval that counts for a later call with the same id makes a test of this file fail.
import { defineAgent, defineTool } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { unique } from "../turns/turn-server.ts";
import { decide } from "./bank.ts";

const paid: { to: string; amount: number }[] = [];
const pay = defineTool({
  description: "Pays",
  inputSchema: v.object({ amount: v.number(), to: v.string() }),
  needsApproval: true,
  execute(input) {
    paid.push(input);
    return `paid ${input.amount}`;
  },
});
/** A model that pays 1, then 2, with the same id of the call. */
const twice: ScriptedStep = ({ prompt }) => {
  const since = prompt.findLastIndex(({ role }) => role === "user");
  const to = (prompt[since]!.content as any[])[0].text;
  const results = prompt.slice(since).flatMap(({ role, content }) => (role === "tool" ? content : [])) as any[];
  const count = results.filter(({ type }) => type === "tool-result").length;
  if (count === 2) return "Done";
  return { toolCalls: [{ toolName: "pay", input: { amount: count + 1, to }, toolCallId: "call_0" }] };
};
const agent = defineAgent({
  id: "a",
  instructions: "x",
  model: scriptedModel(Array.from({ length: 1_000 }, () => twice)),
  tools: { pay },
  maxRetries: 0,
});

const config = { agents: [agent] };
describeServer("a model that uses the id of a call again", { config, only: ["in process"] }, (server) => {
  it.each([false, true])("has each call decided by itself: the second one by %s", async (approved) => {
    const to = unique("to");
    const options = { conversationId: unique("c") };
    const first = await server.post("/agents/a/text", { input: to, options });
    const one = first.body.data.approvals[0].approvalId;
    const second = await decide(server, one);
    expect(second.body.data).toMatchObject({ finishReason: "approval", approvals: [{ input: { amount: 2 } }] });
    expect(second.body.data.approvals).toHaveLength(1);
    const two = second.body.data.approvals[0].approvalId;
    expect((await decide(server, two, { approved })).body.data.text).toBe("Done");
    expect(paid.filter((payment) => payment.to === to).map(({ amount }) => amount)).toEqual(approved ? [1, 2] : [1]);
  });
});
