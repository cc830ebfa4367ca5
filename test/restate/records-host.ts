// A replica as a process: node records-host.ts <name> <port> <folder>. Its workflow `asks` asks an agent that calls the tools
// `quick` and `slow`. Each call of the model and each run of a tool is a line of the file `ran`. `slow` ends when the file
// `released` exists. The process prints its address.
import { appendFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import * as v from "valibot";
import { defineAgent, defineConfig, defineTool, defineWorkflow } from "../../src/index.ts";
import { scriptedModel } from "../../src/models.ts";
import { restate } from "../../src/backends/restate/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";

const [name = "", port = "", folder = ""] = process.argv.slice(2);
const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;
const note = (line: string): void => appendFileSync(join(folder, "ran"), `${line}\n`);

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
const backend = restate({ ingress, admin, name, serve: { port: Number(port) } });
const config = defineConfig({ agents: [agent], workflows: [asks], backend });
const logger = { trace() {}, debug() {}, info() {}, warn: console.error, error: console.error, fatal: console.error };
const server = openServer(toProject(config), { mode: "start", logger });
const { url: address } = await server.listen({ port: 0 });
await server.fetch(new Request("http://localhost/doc")); // answered when the replica is registered
console.log(`ready ${address}`);
