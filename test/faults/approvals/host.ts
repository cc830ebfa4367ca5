// A server whose agent has a tool that needs an approval, and with an agent that asks it, on a file, as a process. Each run of the tool is a line of the log. It
// loads its code, then waits for orders on stdin, one a line.
import { openSync, writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { loadSdk } from "../../../src/agents/sdk.ts";
import { toProject } from "../../../src/config/load.ts";
import { agentTool, defineAgent, defineTool, embedded } from "../../../src/index.ts";
import { scriptedModel, type ScriptedStep } from "../../../src/models.ts";
import { openServer } from "../../../src/server/create.ts";
import { keepRecords } from "../../harness/logged.ts";
import type { Orders } from "../agents/host.ts";

keepRecords();

export interface PaymentLine {
  readonly to: string;
  readonly amount: number;
  readonly key: string;
  readonly approvedBy: unknown;
  readonly life: number;
}

async function start({ folder, life }: { folder: string; life: number }): Promise<void> {
  const file = openSync(join(folder, "log"), "a");
  const tell = (line: PaymentLine): void => void writeSync(file, `${JSON.stringify(line)}\n`);
  const pay = defineTool({
    description: "Pays",
    inputSchema: v.object({ amount: v.number(), to: v.string() }),
    needsApproval: true,
    async execute({ amount, to }, { context, idempotencyKey: key }) {
      tell({ to, amount, key, approvedBy: context.approvedBy, life });
      await sleep(Math.random() * 30); // so that a kill finds it at work
      return `paid ${amount}`;
    },
  });
  const answer: ScriptedStep = async ({ prompt }) => {
    await sleep(Math.random() * 10);
    const own = prompt.slice(prompt.findLastIndex(({ role }) => role === "user"));
    const [{ text }] = own[0]!.content as unknown as [{ text: string }];
    const [, amount, to = ""] = /^pay (\d+) to (\S+)$/.exec(text) ?? [];
    const results = own.flatMap(({ role, content }) => (role === "tool" ? content : []));
    const ends = results.flatMap((part) => (part.type === "tool-result" ? [part.output] : []));
    if (ends.length > 0) return `Done: ${ends.map((end) => ("value" in end ? end.value : end.type)).join(", ")}`;
    if (amount === undefined) return "Done.";
    return { toolCalls: [{ toolName: "pay", input: { amount: Number(amount), to }, toolCallId: "p1" }] };
  };
  const model = scriptedModel(Array.from({ length: 1_000 }, () => answer));
  const agent = defineAgent({ id: "bank", instructions: "Pay.", model, tools: { pay }, maxRetries: 0 });
  const asks: ScriptedStep = async (options) => {
    await sleep(Math.random() * 10);
    const own = options.prompt.slice(options.prompt.findLastIndex(({ role }) => role === "user"));
    const [{ text }] = own[0]!.content as unknown as [{ text: string }];
    if (!text.startsWith("pay") || own.length > 1) return "Done.";
    return { toolCalls: [{ toolName: "bank", input: { prompt: text }, toolCallId: "b1" }] };
  };
  const desk = defineAgent({
    id: "desk",
    instructions: "Ask the bank.",
    model: scriptedModel(Array.from({ length: 1_000 }, () => asks)),
    tools: { bank: agentTool(agent, { description: "Pays" }) },
    maxRetries: 0,
  });
  const config = { agents: [agent, desk], backend: embedded({ path: join(folder, "data.db") }) };
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
