// The cost of OTEL_EXPORTER_OTLP_ENDPOINT: a durable execution of five steps without it (twice, to show the noise of the
// machine), with a receiver that is down (connections are refused, or accepted and never answered), and with one that works.
// The target is at least 0.95 of the throughput while the receiver is down. Then the memory and the lost spans of each.
// Usage: node bench/otlp.mjs [rounds] [seconds]. The variants take turns within one run.
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { compare, measure, startVariants } from "./harness.mjs";

async function serve(endpoint) {
  if (endpoint) process.env.OTEL_EXPORTER_OTLP_ENDPOINT = endpoint;
  const { openServer } = await import("../src/server/create.ts");
  const { toProject } = await import("../src/config/load.ts");
  const { defineWorkflow } = await import("../src/workflows/define.ts");
  let five = defineWorkflow({ id: "five" });
  for (let n = 1; n <= 5; n++) five = five.andThen({ id: `s${n}`, execute: ({ data }) => ({ n: (data.n ?? 0) + 1 }) });
  const project = toProject({ workflows: [five], server: { cors: {} } });
  const server = openServer(project, { mode: "start", file: ":memory:" });
  return (await server.listen({ port: 0 })).port;
}

const variants = {
  without: () => serve(),
  again: () => serve(),
  refused: () => serve(process.env.BENCH_REFUSED),
  "black hole": () => serve(process.env.BENCH_BLACK_HOLE),
  working: () => serve(process.env.BENCH_WORKING),
};

async function listen(server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${server.address().port}`;
}

/** Returns the numbers of a server. Each server uses about the same memory at the end, if its queue has a bound. */
async function read({ port }) {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const valueOf = (name) => Number(new RegExp(`^${name} (.*)$`, "m").exec(text)[1]);
  return {
    "heap MB": Math.round(valueOf("process_heap_bytes") / 1e6),
    "rss MB": Math.round(valueOf("process_resident_memory_bytes") / 1e6),
    exported: valueOf("agentserve_spans_exported_total"),
    dropped: valueOf("agentserve_spans_dropped_total"),
  };
}

const isParent = process.argv[2] !== "serve";
if (isParent) {
  const closed = createTcpServer();
  process.env.BENCH_REFUSED = await listen(closed);
  closed.close();
  process.env.BENCH_BLACK_HOLE = await listen(createTcpServer(() => {}));
  const receiver = createHttpServer((req, res) => req.on("end", () => res.end()).resume());
  process.env.BENCH_WORKING = await listen(receiver);
}
const servers = await startVariants(import.meta.filename, variants);
if (servers) {
  const [rounds = 7, seconds = 2] = process.argv.slice(2).map(Number);
  const request = { seconds, method: "POST", path: "/workflows/five/execute", body: JSON.stringify({ input: {} }) };
  // Until the queue is full, spans are created as if the receiver worked. That is not the state that lasts.
  for (const name of ["refused", "black hole"])
    while ((await read(servers[name])).dropped === 0) await measure(servers[name], { ...request, connections: 16 });
  for (const connections of [1, 16]) await compare(servers, request, { rounds, connections });
  for (const [name, server] of Object.entries(servers)) console.log(name.padEnd(10), await read(server));
  for (const { child } of Object.values(servers)) child.kill();
  process.exit();
}
