import { expect, it } from "vitest";
import * as v from "valibot";
import {
  createToken,
  defineAgent,
  defineTool,
  defineWorkflow,
  jwtAuth,
  type AgentHooks,
  type ToolExecution,
} from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import { open } from "./open.ts";

const secret = "a secret for tests, at least 32 bytes";
const refund = defineWorkflow({ id: "refund", input: v.object({ order: v.string() }) }).andThen({
  id: "pay",
  execute: ({ data, context }) => ({ order: data.order, user: context.get("user"), userId: context.get("userId") }),
});
const expert = defineAgent({
  id: "expert",
  instructions: ({ userId }) => `You advise ${userId}.`,
  model: echoModel(),
});

it("lets a tool ask an agent and start a workflow, and a hook too, as the user of the call", async () => {
  const seen: unknown[] = [];
  const tool = defineTool({
    description: "Refunds an order",
    inputSchema: v.object({ order: v.string() }),
    async execute({ order }, { runtime }: ToolExecution) {
      const advice = await runtime.ask(expert, `Refund ${order}?`);
      const outcome = await runtime.execute(refund, { order });
      seen.push(advice, outcome);
      return outcome;
    },
  });
  const onEnd: AgentHooks["onEnd"] = async ({ runtime }) => {
    seen.push((await runtime.executions.list()).items.map(({ workflowId, context }) => [workflowId, context]));
  };
  const model = scriptedModel([{ toolCalls: [{ toolName: "refund", input: { order: "o1" } }] }, "Done"]);
  const desk = defineAgent({
    id: "desk",
    instructions: "Help.",
    model,
    tools: { refund: tool },
    maxSteps: 2,
    hooks: { onEnd },
  });
  const server = open({ agents: [desk, expert], workflows: [refund], auth: jwtAuth({ secret }) });
  await server.runtime.execute(refund, { order: "o0" }, { as: { id: "bob" } });
  const authorization = `Bearer ${await createToken({ sub: "ada", team: "x" }, secret)}`;
  const response = await server.fetch(
    new Request("http://localhost/agents/desk/text", {
      method: "POST",
      headers: { authorization, "content-type": "application/json" },
      body: JSON.stringify({ input: "Refund o1" }),
    }),
  );
  expect(await response.json()).toMatchObject({ success: true, data: { text: "Done" } });
  expect(seen).toEqual([
    expect.stringContaining("Refund o1?"),
    {
      executionId: expect.any(String),
      status: "completed",
      result: { order: "o1", user: expect.objectContaining({ team: "x" }), userId: "ada" },
    },
    [["refund", { userId: "ada" }]],
  ]);
});
