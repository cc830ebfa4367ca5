// A server whose agent has a tool that needs an approval, and with an agent that asks it, on a file. Each run of the
// tool is a line of the log. A file `die` has the number of the commit, from then on, after which the process kills itself.
import { existsSync, readFileSync } from "node:fs";
import { StatementSync } from "node:sqlite";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { agentTool, defineAgent, defineTool } from "../../../src/index.ts";
import { scriptedModel, type ScriptedStep } from "../../../src/models.ts";
import { serveOnFile } from "../agents/agent-app.ts";

export interface PaymentLine {
  readonly to: string;
  readonly amount: number;
  readonly key: string;
  readonly approvedBy: unknown;
  readonly life: number;
}

export default serveOnFile<PaymentLine>(({ folder, tell }) => {
  dieAtCommit(join(folder, "die"));
  const pay = defineTool({
    description: "Pays",
    inputSchema: v.object({ amount: v.number(), to: v.string() }),
    needsApproval: true,
    async execute({ amount, to }, { context, idempotencyKey: key }) {
      tell({ to, amount, key, approvedBy: context.approvedBy });
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
  return { agents: [agent, desk] };
});

function dieAtCommit(file: string): void {
  const { run } = StatementSync.prototype;
  let commits = 0;
  StatementSync.prototype.run = function (...values: unknown[]) {
    const result = run.apply(this, values as never);
    if (this.sourceSQL !== "commit" || !existsSync(file)) return result;
    if (++commits === Number(readFileSync(file, "utf8"))) process.kill(process.pid, "SIGKILL");
    return result;
  };
}
