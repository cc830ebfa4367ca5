import { expect } from "vitest";
import { run } from "../../harness/cli.ts";
import type { Block } from "./blocks.ts";
import type { World } from "./world.ts";

/** `.andThen({ … })`, and below it `// data before → data after`. */
export const isChain = ({ language, text }: Block): boolean => language === "ts" && text.startsWith(".and");

/** `ts`: a part of a chain. It runs with the data of its last line, and must end as that line says. */
export async function runChain(block: Block, { tools }: World): Promise<void> {
  const manifest = `{ "type": "module" }`;
  const cwd = tools.project({ "chain.ts": toChainSource(block), "main.ts": main, "package.json": manifest });
  const { code, stdout, stderr } = await run(process.execPath, ["main.ts"], { cwd, env: tools.env }).ended;
  expect(code, stderr).toBe(0);
  const [state, expected] = JSON.parse(stdout) as [object, object];
  expect(state, stderr).toMatchObject(expected);
}

/** The chain as a module, with the imports and the objects that the page leaves to its reader. */
export function toChainSource({ text }: Block): string {
  const [, chain, before, kind, after] = /^([^]+)\n\/\/ (.+?) → (?:(error|suspended) )?(.+)\n$/.exec(text) ?? [];
  if (chain === undefined) throw new Error("a part of a chain ends with a line `// data before → data after`");
  return `import { setTimeout as sleep } from "node:timers/promises";
import { andAll, andRace, andThen, andWhen, defineAgent, defineWorkflow, ServeError, type StepContext } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";

export const given = ${before};
const outcome = ${after};
export const expected = ${outcomes[kind ?? "completed"]};
const support = defineAgent({ id: "support", instructions: "", model: scriptedModel([JSON.stringify(outcome)]) });
const payments = {
  refund: async (_: { order: string; idempotencyKey: string; signal: AbortSignal }) => ({ refundId: "re_1" }),
};

export const chain = defineWorkflow({ id: "chain", input: v.custom<typeof given>(() => true) })
${chain};
`;
}

const outcomes: Record<string, string> = {
  completed: `{ status: "completed", result: outcome }`,
  error: `{ status: "error", error: outcome }`,
  suspended: `{ status: "suspended", suspension: { reason: outcome } }`,
};

const main = `import { createServer, embedded } from "agentserve";
import { chain, expected, given } from "./chain.ts";

const server = createServer({ workflows: [chain], backend: embedded({ path: ":memory:" }) });
const url = "http://localhost/workflows/chain";
const body = JSON.stringify({ input: given, options: { executionId: "e" } });
const headers = { "content-type": "application/json" };
await server.fetch(new Request(\`\${url}/execute\`, { method: "POST", headers, body }));
const state = await (await server.fetch(new Request(\`\${url}/executions/e/state\`))).json();
await server.close();
console.log(JSON.stringify([state.data, expected]));
`;
