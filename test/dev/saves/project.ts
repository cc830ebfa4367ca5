import { createProject } from "../../harness/project.ts";

/** What a file is marked with: the number of the save that wrote it. Of one length, so that a file can be overwritten in place. */
export const toStamp = (save: number): string => String(save).padStart(5, "0");

/** Each file that carries a stamp, by the name of its stamp. */
export const stamped: Record<string, { readonly file: string; readonly text: (stamp: string) => string }> = {
  config: { file: "agents.config.ts", text: toConfig },
  guide: { file: "agents/guide.ts", text: toAgent },
  relay: { file: "workflows/relay.ts", text: toRelay },
  part: { file: "workflows/part.ts", text: toPart },
  journey: { file: "workflows/journey.ts", text: toJourney },
  first: { file: "lib/first.ts", text: toFirst },
  second: { file: "lib/deep/second.ts", text: toSecond },
  json: { file: "lib/deep/data.json", text: (stamp) => JSON.stringify({ stamp, ballast: "x".repeat(1_000) }) },
  plain: { file: "lib/plain.mjs", text: (stamp) => `${ballast}export const plain = "${stamp}";\n` },
  script: { file: "lib/script.js", text: (stamp) => `${ballast}export const script = "${stamp}";\n` },
  late: { file: "lib/late.ts", text: toLate },
  env: { file: ".env", text: (stamp) => `STAMP=${stamp}\n` },
};

/** A project with one file of each sort; what they say of themselves is what they were stamped with. */
export function createStampedProject(): string {
  const files = Object.values(stamped).map(({ file, text }) => [file, text(toStamp(0))] as const);
  return createProject({
    "package.json": `{ "type": "module" }`,
    ...Object.fromEntries(files),
    "lib/gates.ts": gates,
    "lib/witness.ts": witness,
    "workflows/ticker.ts": ticker,
  });
}

/** 256 KiB of every file's own: whoever keeps anything of one version of it is found out by the heap. */
const ballast = `const ballast = Array.from({ length: 32_768 }, (_, index) => index + 0.5);\nexport const weigh = () => ballast.length;\n`;

function toConfig(stamp: string): string {
  return `
import { defineConfig } from "agentserve";
import { defineWebSocketHandler, type H3 } from "h3";
import { guide } from "../agents/guide.ts";
import { seen } from "../lib/first.ts";
import { arrival, open, pass } from "../lib/gates.ts";
import { note } from "../lib/witness.ts";
${ballast}
const { late } = await import("../lib/late.ts");
const stamps = { ...seen, late, config: "${stamp}", env: process.env.STAMP };
note("opened", seen.load);

export default defineConfig({
  agents: [guide],
  configureApp(app: H3) {
    app.get("/version", () => stamps);
    app.get("/held/:name", async ({ context }) => (await pass(context.params!.name), stamps));
    app.get("/arrival/:name", async ({ context }) => (await arrival(context.params!.name), {}));
    app.post("/gates/:name", ({ context, url }) => (open(context.params!.name, url.searchParams.get("say") ?? ""), {}));
    app.get("/heap", async () => {
      for (let round = 0; round < 4; round++) {
        globalThis.gc();
        await new Promise((resolve) => setImmediate(resolve));
      }
      return { bytes: process.memoryUsage().heapUsed };
    });
    app.get(
      "/own",
      defineWebSocketHandler({
        open: (peer) => void peer.send(JSON.stringify(stamps)),
        message: (peer, message) => void peer.send(JSON.stringify({ ...stamps, said: message.text(), weight: weigh() })),
      }),
    );
  },
  onDispose: () => note("disposed", seen.load),
});
`;
}

function toAgent(stamp: string): string {
  return `
import { defineAgent, defineTool } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot";
import { seen } from "../../lib/first.ts";
${ballast}
const stamps = { ...seen, guide: "${stamp}" };
const tell = defineTool({ description: "Tells", inputSchema: v.object({}), execute: () => ({ ...stamps, weight: weigh() }) });
const text = JSON.stringify(stamps);
export const guide = defineAgent({ id: "guide", description: text, instructions: text, model: echoModel(), tools: { tell } });
`;
}

function toRelay(stamp: string): string {
  return `
import { defineWorkflow } from "agentserve";
import { seen } from "../../lib/first.ts";
${ballast}
const stamps = { ...seen, relay: "${stamp}" };
export const relay = defineWorkflow({ id: "relay", purpose: JSON.stringify(stamps) })
  .andThen({ id: "one", execute: ({ logger }) => (logger.info("Relayed", { weight: weigh() }), [stamps]) })
  .andThen({ id: "two", execute: ({ data }) => [...data, stamps] });
`;
}

function toPart(stamp: string): string {
  return `
import { defineWorkflow } from "agentserve";
import { seen } from "../../lib/first.ts";
import { pass } from "../../lib/gates.ts";
import { note } from "../../lib/witness.ts";
${ballast}
const stamps = { ...seen, part: "${stamp}" };
export default defineWorkflow({ id: "part" }).andThen({
  id: "inner",
  execute: async ({ executionId }) => {
    await pass(executionId);
    note("ran", seen.load);
    return { ...stamps, weight: weigh() };
  },
});
`;
}

/** Waits at four gates, so that a test decides how many saves it lasts. Each step says which code it is. */
function toJourney(stamp: string): string {
  return `
import { andThen, defineWorkflow } from "agentserve";
import { guide } from "../../agents/guide.ts";
import { seen } from "../../lib/first.ts";
import { pass } from "../../lib/gates.ts";
import { note } from "../../lib/witness.ts";
import part from "../part.ts";
${ballast}
interface Stamps { load: number; [name: string]: unknown }
const stamps: Stamps = { ...seen, journey: "${stamp}" };
async function wait(name: string): Promise<Stamps> {
  await pass(name);
  note("ran", seen.load);
  return { ...stamps, weight: weigh() };
}
export const journey = defineWorkflow({ id: "journey", purpose: JSON.stringify(stamps) })
  .andThen({ id: "begin", execute: async ({ executionId }) => [await wait(executionId)] })
  .andWorkflow({ id: "inside", workflow: part, map: (output, { data }) => [...data, output] })
  .andAll({
    id: "both",
    steps: [
      andThen({ id: "left", execute: async ({ data, executionId }) => [...data, await wait(executionId)] }),
      andThen({ id: "right", execute: () => stamps }),
    ],
  })
  .andThen({ id: "join", execute: ({ data: [left, right] }) => [...left, right] })
  .andAgent({ id: "ask", agent: guide, prompt: "tell", map: (text, { data }) => [...data, JSON.parse(text.slice(text.indexOf("{")))] })
  .andThen({ id: "end", execute: async ({ data, executionId }) => [...data, await wait(executionId)] });
`;
}

function toFirst(stamp: string): string {
  return `
import { below } from "../deep/second.ts";
${ballast}
declare global { var loads: number | undefined }
globalThis.loads = (globalThis.loads ?? 0) + 1;
export const seen = { load: globalThis.loads, first: "${stamp}", ...below };
`;
}

function toSecond(stamp: string): string {
  return `
import { plain } from "../../plain.mjs";
import { script } from "../../script.js";
import data from "../data.json";
${ballast}
export const below: Record<string, string> = { second: "${stamp}", json: data.stamp, plain, script };
`;
}

function toLate(stamp: string): string {
  return `
import { below } from "../deep/second.ts";
${ballast}
export const late: string = below.second ? "${stamp}" : "";
`;
}

/** The same gates for every version: whoever asks, on whatever code, opens them for all. */
const gates = `
interface Gate { opened: string[]; waiting: ((said: string) => void)[]; arrivals: (() => void)[] }
declare global { var gates: Map<string, Gate> | undefined }
const all = (globalThis.gates ??= new Map<string, Gate>());

function at<T>(name: string, use: (gate: Gate) => T): T {
  const gate = all.get(name) ?? { opened: [], waiting: [], arrivals: [] };
  all.set(name, gate);
  const result = use(gate);
  if (gate.opened.length + gate.waiting.length + gate.arrivals.length === 0) all.delete(name);
  return result;
}
export const pass = (name: string): Promise<string> =>
  at(name, (gate) => {
    for (const arrived of gate.arrivals.splice(0)) arrived();
    const said = gate.opened.shift();
    return said === undefined ? new Promise<string>((resolve) => void gate.waiting.push(resolve)) : Promise.resolve(said);
  });
export const open = (name: string, say: string): void =>
  at(name, (gate) => {
    const resolve = gate.waiting.shift();
    if (resolve) resolve(say);
    else gate.opened.push(say);
  });
export const arrival = (name: string): Promise<void> =>
  at(name, (gate) => (gate.waiting.length > 0 ? Promise.resolve() : new Promise((resolve) => void gate.arrivals.push(resolve))));
`;

const witness = `
import { appendFileSync } from "node:fs";
export const note = (what: string, load: number): void => appendFileSync(process.env.WITNESS!, \`\${what} \${load}\\n\`);
`;

/** Emits an event each time that its gate is opened, until it is told to stop. */
const ticker = `
import { defineWorkflow } from "agentserve";
import { seen } from "../../lib/first.ts";
import { pass } from "../../lib/gates.ts";
import { note } from "../../lib/witness.ts";
export const ticker = defineWorkflow({ id: "ticker" }).andThen({
  id: "tick",
  execute: async ({ executionId, emit }) => {
    for (let count = 1; (await pass(executionId)) !== "stop"; count++) {
      note("ran", seen.load);
      emit({ type: "tick", count, load: seen.load });
    }
    return seen.load;
  },
});
`;
