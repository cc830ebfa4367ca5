// A server whose agent has two tools, on a file, as a process. `quick` returns, `slow` neither returns nor heeds its signal. Each
// call of the model and of a tool is a line of the log. It loads its code, then waits for orders on stdin, one a line.
import { openSync, writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import * as v from "valibot";
import { loadSdk } from "../../../src/agents/sdk.ts";
import { toProject } from "../../../src/config/load.ts";
import { defineAgent, defineTool, embedded } from "../../../src/index.ts";
import { scriptedModel, type ScriptedStep } from "../../../src/models.ts";
import { openServer } from "../../../src/server/create.ts";
import { keepRecords } from "../../harness/logged.ts";
import type { Orders } from "../agents/host.ts";

keepRecords();

export interface StopLine {
  readonly what: string;
  /** The messages that the model was shown, as JSON. */
  readonly shown?: string;
  readonly life: number;
}

async function start({ folder, life }: { folder: string; life: number }): Promise<void> {
  const file = openSync(join(folder, "log"), "a");
  const tell = (line: Omit<StopLine, "life">): void => void writeSync(file, `${JSON.stringify({ ...line, life })}\n`);
  const inputSchema = v.object({});
  const quick = defineTool({
    description: "Returns",
    inputSchema,
    execute() {
      tell({ what: "quick" });
      return "done";
    },
  });
  const slow = defineTool({
    description: "Never returns",
    inputSchema,
    execute() {
      tell({ what: "slow" });
      return new Promise<never>(() => {});
    },
  });
  const call = (toolName: string) => ({ toolCalls: [{ toolName, input: {}, toolCallId: toolName }] });
  const answer: ScriptedStep = ({ prompt }) => {
    const own = prompt.slice(prompt.findLastIndex(({ role }) => role === "user"));
    const [asked = ""] = own.flatMap(({ role, content }) =>
      role === "user" ? content.map((part) => (part.type === "text" ? part.text : "")) : [],
    );
    tell({ what: asked, shown: JSON.stringify(prompt.slice(1)) });
    if (asked !== "work") return "Hello.";
    return own.length === 1 ? { text: "First. ", ...call("quick") } : own.length === 3 ? call("slow") : "Never said.";
  };
  const model = scriptedModel(Array.from({ length: 100 }, () => answer));
  const agent = defineAgent({ id: "worker", instructions: "Work.", model, tools: { quick, slow }, maxRetries: 0 });
  const config = { agents: [agent], backend: embedded({ path: join(folder, "data.db") }) };
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
void loadSdk().then(() => flushCompileCache());
