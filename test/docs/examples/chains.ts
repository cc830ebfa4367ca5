import { expect } from "vitest";
import { run } from "../../harness/cli.ts";
import { toPlace, type Block } from "./blocks.ts";
import type { World } from "./world.ts";

/** `.andThen({ … })`, and below it `// data before → data after`. */
export const isChain = ({ language, text }: Block): boolean => language === "ts" && text.startsWith(".and");

/** `ts`: a part of a chain. It runs with the data of its last line, and must end as that line says. */
export async function runChain(block: Block, world: World): Promise<void> {
  const source = toChainSource(block); // says what is wrong with this one, before all of them are run
  if (!ran.has(world)) ran.set(world, runAll(world));
  const { ends, stderr } = await ran.get(world)!;
  const end = ends[toPlace(block)];
  if (!end || "thrown" in end) throw new Error(`${end?.thrown ?? "it did not run"}\n${source}\n${stderr}`);
  expect(end.state, stderr).toMatchObject(end.expected);
}

interface Chains {
  readonly ends: Record<string, { readonly state: object; readonly expected: object } | { readonly thrown: string }>;
  readonly stderr: string;
}
const ran = new WeakMap<World, Promise<Chains>>();

/** Runs the chains of all pages in one process, each on a server of its own. */
async function runAll({ blocks, tools }: World): Promise<Chains> {
  const files: Record<string, string> = { "main.ts": main, "package.json": `{ "type": "module" }` };
  const places: Record<string, string> = {};
  for (const [at, block] of blocks.filter(isChain).entries()) {
    places[toPlace(block)] = `./chain-${at}.ts`;
    files[`chain-${at}.ts`] = toSourceOrThrow(block);
  }
  files["places.json"] = JSON.stringify(places);
  const { code, stdout, stderr } = await run(process.execPath, ["main.ts"], {
    cwd: tools.project(files),
    env: tools.env,
  }).ended;
  expect(code, stderr).toBe(0);
  return { ends: JSON.parse(stdout) as Chains["ends"], stderr };
}

/** A chain that cannot be read fails its own test only. */
function toSourceOrThrow(block: Block): string {
  try {
    return toChainSource(block);
  } catch (error) {
    return `throw new Error(${JSON.stringify(String(error))});`;
  }
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

const main = `import { readFileSync } from "node:fs";
import { createServer, embedded } from "agentserve";

const ends = {};
for (const [place, file] of Object.entries(JSON.parse(readFileSync("places.json", "utf8"))))
  ends[place] = await end(file).catch((error) => ({ thrown: String(error?.stack) }));
console.log(JSON.stringify(ends));

async function end(file) {
  const { chain, expected, given } = await import(file);
  const server = createServer({ workflows: [chain], backend: embedded({ path: ":memory:" }) });
  const url = "http://localhost/workflows/chain";
  const body = JSON.stringify({ input: given, options: { executionId: "e" } });
  const headers = { "content-type": "application/json" };
  await server.fetch(new Request(\`\${url}/execute\`, { method: "POST", headers, body }));
  const state = await (await server.fetch(new Request(\`\${url}/executions/e/state\`))).json();
  await server.close();
  return { state: state.data, expected };
}
`;
