// The workflow `asks` asks an agent that calls the tools `quick` and `slow`. Each call of the model and each run of a tool is a line
// of the log. `slow` ends when the file `released` exists.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import * as v from "valibot";
import { defineAgent, defineTool, defineWorkflow } from "../../src/index.ts";
import { scriptedModel } from "../../src/models.ts";
import { createLog, type Hosted } from "../harness/hosted.ts";
import { patientTimeouts } from "../harness/patience.ts";
import { serveReplica, type ReplicaPlace } from "./serve-replica.ts";

export default function create(place: ReplicaPlace): Hosted {
  const { folder } = place;
  const note = createLog(folder);
  const toTool = (tool: string, work: () => Promise<void>) =>
    defineTool({
      description: tool,
      inputSchema: v.object({}),
      async execute(_, { idempotencyKey }) {
        note(`${tool} ${idempotencyKey}`);
        await work();
        return `${tool} is done`;
      },
    });
  const tools = {
    quick: toTool("quick", async () => {}),
    slow: toTool("slow", async () => {
      while (!existsSync(join(folder, "released"))) await sleep(10);
    }),
  };
  function answer({ prompt }: LanguageModelV4CallOptions) {
    const call = prompt.filter(({ role }) => role === "assistant").length;
    note(`model ${call}`);
    const toolName = ["quick", "slow"][call];
    if (toolName !== undefined) return { toolCalls: [{ toolName, input: {} }] };
    const parts = prompt.flatMap(({ role, content }) => (role === "tool" ? content : []));
    return parts
      .map((part) => (part.type === "tool-result" && part.output.type === "text" ? part.output.value : ""))
      .join();
  }
  const model = scriptedModel(Array.from({ length: 100 }, () => answer));
  const agent = defineAgent({ id: "a", instructions: "x", model, tools, maxRetries: 0 });
  const asks = defineWorkflow({ id: "asks" }).andAgent({ id: "ask", agent, prompt: "go" });
  return serveReplica(place, { agents: [agent], workflows: [asks] }, { timeouts: patientTimeouts });
}
