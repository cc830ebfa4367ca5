// A server whose agent has five tools, on a file.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as v from "valibot";
import { defineAgent, defineTool, defineWorkflow } from "../../../src/index.ts";
import { serveOnFile } from "../agents/agent-app.ts";
import { toolNames } from "./model.ts";
import type { ToolRun } from "./turn.ts";

export default serveOnFile<ToolRun>(({ folder, life, tell }) => {
  const toTool = (tool: string) =>
    defineTool({
      description: `Does ${tool}`,
      inputSchema: v.object({ turn: v.string() }),
      async execute({ turn }, { toolCallId, idempotencyKey }) {
        const value = `${tool} ${crypto.randomUUID()}`;
        tell({ turn, tool, toolCallId, idempotencyKey, value });
        await sleep(Math.random() * 20); // so that a kill finds it at work
        return value;
      },
    });
  const baseURL = readFileSync(join(folder, "provider"), "utf8");
  const provider = createOpenAICompatible({ name: "planned", baseURL, headers: { "x-life": String(life) } });
  const agent = defineAgent({
    id: "planner",
    instructions: "Follow the plan.",
    model: provider("planned"),
    tools: Object.fromEntries(toolNames.map((name) => [name, toTool(name)])),
    maxRetries: 0,
    maxSteps: 10,
  });
  const turn = defineWorkflow({ id: "turn" }).andAgent({
    id: "ask",
    agent,
    prompt: ({ executionId }) => executionId,
  });
  const question = defineWorkflow({ id: "question" }).andThen({
    id: "ask",
    async execute({ executionId, runtime }) {
      // Not in the order of the life before.
      const prompts = [executionId, `recall ${executionId}`];
      if (Math.random() < 0.5) prompts.reverse();
      const answers = await Promise.all(prompts.map((prompt) => runtime.ask(agent, prompt)));
      return answers[prompts.indexOf(executionId)]!;
    },
  });
  return { agents: [agent], workflows: [turn, question] };
});
