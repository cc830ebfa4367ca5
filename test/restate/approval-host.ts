// A replica as a process: node approval-host.ts <name> <port> <url> <folder>. Its agent `bank` answers `pay <amount> to <id>` with
// a call of a tool that needs an approval, and everything else with `Done.`. Each run of the tool is a line of the file `log` in
// the folder, and lasts for as long as there is a file `hold-<id>`. The process prints its address.
import { appendFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { restate } from "../../src/backends/restate/define.ts";
import { toProject } from "../../src/config/load.ts";
import { defineAgent, defineConfig, defineTool } from "../../src/index.ts";
import { scriptedModel, type ScriptedStep } from "../../src/models.ts";
import { openServer } from "../../src/server/create.ts";

const [name = "", port = "", url = "", folder = ""] = process.argv.slice(2);
const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

export interface Payment {
  readonly input: { readonly amount: number; readonly to: string };
  readonly key: string;
  readonly approvedBy: unknown;
  /** The process that ran the tool. */
  readonly pid: number;
}

const pay = defineTool({
  description: "Pays",
  inputSchema: v.object({ amount: v.number(), to: v.string() }),
  needsApproval: true,
  async execute(input, { context, idempotencyKey: key }) {
    const payment: Payment = { input, key, approvedBy: context.approvedBy, pid: process.pid };
    appendFileSync(join(folder, "log"), `${JSON.stringify(payment)}\n`);
    await sleep(Math.random() * 30); // so that a kill finds it at work
    while (existsSync(join(folder, `hold-${input.to}`))) await sleep(5);
    return `paid ${input.amount}`;
  },
});
const answer: ScriptedStep = async ({ prompt }) => {
  await sleep(Math.random() * 10);
  const own = prompt.slice(prompt.findLastIndex(({ role }) => role === "user"));
  const [{ text }] = own[0]!.content as unknown as [{ text: string }];
  const [, amount, to = ""] = /^pay (\d+) to (\S+)$/.exec(text) ?? [];
  if (amount === undefined || own.length > 1) return "Done.";
  return { toolCalls: [{ toolName: "pay", input: { amount: Number(amount), to }, toolCallId: "p1" }] };
};
const model = scriptedModel(Array.from({ length: 1_000 }, () => answer));
const agent = defineAgent({ id: "bank", instructions: "Pay.", model, tools: { pay }, maxRetries: 0 });
const backend = restate({ ingress, admin, name, serve: { port: Number(port), url } });
const ignore = (): void => {};
const logger = { trace: ignore, debug: ignore, info: ignore, warn: console.error, error: console.error, fatal: ignore };
const server = openServer(toProject(defineConfig({ agents: [agent], backend })), { mode: "start", logger });
const { url: address } = await server.listen({ port: 0 });
await server.fetch(new Request("http://localhost/doc")); // answered when the replica is registered
console.log(`ready ${address}`);
