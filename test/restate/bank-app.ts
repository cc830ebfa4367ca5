// The agent `bank` answers `pay <amount> to <id>` with a call of a tool that needs an approval, and everything else with `Done.`.
// Each run of the tool is a line of the file `log`, and lasts for as long as there is a file `hold-<id>`.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { defineAgent, defineTool } from "../../src/index.ts";
import { scriptedModel, type ScriptedStep } from "../../src/models.ts";
import { createLog, type Hosted } from "../harness/hosted.ts";
import { patientTimeouts } from "../harness/patience.ts";
import { serveReplica, type ReplicaPlace } from "./serve-replica.ts";

export interface Payment {
  readonly input: { readonly amount: number; readonly to: string };
  readonly key: string;
  readonly approvedBy: unknown;
  /** The process that ran the tool. */
  readonly pid: number;
}

export default function create(place: ReplicaPlace): Hosted {
  const { folder } = place;
  const write = createLog(folder);
  const pay = defineTool({
    description: "Pays",
    inputSchema: v.object({ amount: v.number(), to: v.string() }),
    needsApproval: true,
    async execute(input, { context, idempotencyKey: key }) {
      const payment: Payment = { input, key, approvedBy: context.approvedBy, pid: process.pid };
      write(JSON.stringify(payment));
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
  return serveReplica(place, { agents: [agent] }, { timeouts: patientTimeouts });
}
