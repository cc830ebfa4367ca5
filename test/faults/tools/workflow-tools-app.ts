// A server whose agent has a workflow as a tool, on a file. Each call of the model and each item of the workflow is
// a line of the log.
import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { andThen, defineAgent, defineWorkflow, workflowTool } from "../../../src/index.ts";
import { scriptedModel, type ScriptedStep } from "../../../src/models.ts";
import { serveOnFile } from "../agents/agent-app.ts";
import { items, type ToolLine } from "./plan.ts";

export default serveOnFile<ToolLine>(({ tell }) => {
  const work = defineWorkflow({ id: "work", input: v.object({ turn: v.string() }) })
    .andThen({ id: "list", execute: () => Array.from({ length: items }, (_, item) => item) })
    .andForEach({
      id: "each",
      concurrency: 1,
      step: andThen({
        id: "item",
        async execute({ data, input, executionId }) {
          tell({ what: "item", turn: (input as { turn: string }).turn, item: data as number, executionId });
          await sleep(Math.random() * 20);
          return data;
        },
      }),
    })
    .andThen({ id: "count", execute: ({ data, executionId }) => `${data.length} of ${executionId}` });
  const ask = defineWorkflow({
    id: "ask",
    input: v.object({ turn: v.string() }),
    resumeSchema: v.object({ approved: v.boolean() }),
  })
    .andThen({
      id: "approve",
      execute: ({ data, resumeData, suspend }) => (resumeData ? data : suspend("Approved?")),
    })
    .andThen({
      id: "work",
      async execute({ data: { turn }, executionId }) {
        tell({ what: "item", turn, item: 0, executionId });
        await sleep(Math.random() * 10);
        return `approved ${executionId}`;
      },
    });
  const answer: ScriptedStep = async ({ prompt }) => {
    const own = prompt.slice(prompt.findLastIndex(({ role }) => role === "user"));
    const [turn = ""] = own.flatMap(({ role, content }) =>
      role === "user" ? content.map((part) => (part.type === "text" ? part.text : "")) : [],
    );
    tell({ what: "model", turn });
    const [result] = own.flatMap(({ role, content }) =>
      role === "tool" ? content.flatMap((part) => (part.type === "tool-result" ? [part.output] : [])) : [],
    );
    const toolName = turn.startsWith("ask") ? "ask" : "work";
    if (!result) return { toolCalls: [{ toolName, toolCallId: "call", input: { turn } }] };
    await sleep(Math.random() * 10);
    return `${turn}: ${"value" in result ? String(result.value) : result.type}`;
  };
  const agent = defineAgent({
    id: "worker",
    instructions: "Work.",
    model: scriptedModel(Array.from({ length: 10_000 }, () => answer)),
    tools: { work: workflowTool(work), ask: workflowTool(ask) },
    maxRetries: 0,
  });
  return { agents: [agent], workflows: [work, ask] };
});
