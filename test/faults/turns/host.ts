// A server whose agent has five tools, on a file, as a process. It loads its code, then waits for orders on stdin, one a line.
import { openSync, readFileSync, writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as v from "valibot";
import { loadSdk } from "../../../src/agents/sdk.ts";
import { toProject } from "../../../src/config/load.ts";
import { defineAgent, defineTool, defineWorkflow, embedded } from "../../../src/index.ts";
import { openServer } from "../../../src/server/create.ts";
import { keepRecords } from "../../harness/logged.ts";
import type { Orders } from "../agents/host.ts";
import { toolNames } from "./model.ts";
import type { ToolRun } from "./turn.ts";

keepRecords();

async function start({ folder, life }: { folder: string; life: number }): Promise<void> {
  const file = openSync(join(folder, "log"), "a");
  /** Synchronous: a run that is in the file has begun, and each run that has begun is there. */
  const tell = (run: ToolRun): void => void writeSync(file, `${JSON.stringify(run)}\n`);
  const toTool = (tool: string) =>
    defineTool({
      description: `Does ${tool}`,
      inputSchema: v.object({ turn: v.string() }),
      async execute({ turn }, { toolCallId, idempotencyKey }) {
        const value = `${tool} ${crypto.randomUUID()}`;
        tell({ turn, tool, toolCallId, idempotencyKey, value, life });
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
  const config = { agents: [agent], workflows: [turn, question], backend: embedded({ path: join(folder, "data.db") }) };
  const { url } = await openServer(toProject(config), { mode: "start" }).listen({ port: 0 });
  console.log(url);
}

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const orders = JSON.parse(line) as Orders;
    if (orders.start) void start(orders.start);
  })
  // The test has ended.
  .on("close", () => process.exit());
// The next one loads faster. A process that is killed would not write it.
void loadSdk().then(() => flushCompileCache());
