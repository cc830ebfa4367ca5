// The cost of logs and spans without a reader: a durable execution of five steps without them (twice, to show the noise
// of the machine), with them, and with a reader. The target is at most 10 % slower.
// Usage: node bench/observability.mjs [rounds] [seconds]. The variants take turns within one run.
import { compare, startVariants } from "./harness.mjs";

const nobody = { next: 1, oldest: 1, get() {}, newest: () => [], add() {} };
const noLogs = {
  logger: Object.fromEntries(["trace", "debug", "info", "warn", "error", "fatal"].map((level) => [level, () => {}])),
  activity: { isOn: () => false, log() {} },
  ring: nobody,
  listen: () => () => {},
};
const noTraces = {
  ready: Promise.resolve(),
  tracer: { isOn: () => false, start() {} },
  rootOf() {},
  async flush() {},
  listen: () => () => {},
};

async function serve(parts) {
  const { openServer } = await import("../src/server/create.ts");
  const { toProject } = await import("../src/config/load.ts");
  const { defineWorkflow } = await import("../src/workflows/define.ts");
  let five = defineWorkflow({ id: "five" });
  for (let n = 1; n <= 5; n++) five = five.andThen({ id: `s${n}`, execute: ({ data }) => ({ n: (data.n ?? 0) + 1 }) });
  const project = toProject({ workflows: [five], server: { cors: {} } });
  const server = openServer(project, { mode: "start", file: ":memory:", ...parts });
  return { server, port: (await server.listen({ port: 0 })).port };
}

const variants = {
  "no-op": async () => (await serve({ logs: noLogs, traces: noTraces })).port,
  again: async () => (await serve({ logs: noLogs, traces: noTraces })).port,
  nobody: async () => (await serve({})).port,
  async listened() {
    const { port } = await serve({});
    const reader = new WebSocket(`ws://127.0.0.1:${port}/ws/observability`);
    reader.addEventListener("error", () => process.exit(1));
    return port;
  },
};

const servers = await startVariants(import.meta.filename, variants);
if (servers) {
  const [rounds = 7, seconds = 2] = process.argv.slice(2).map(Number);
  const request = { seconds, method: "POST", path: "/workflows/five/execute", body: JSON.stringify({ input: {} }) };
  for (const connections of [1, 16]) await compare(servers, request, { rounds, connections });
  for (const { child } of Object.values(servers)) child.kill();
}
