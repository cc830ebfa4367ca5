// What idle streams of GET /executions/stream cost other callers: the same executions on a server without streams, on a second
// one without streams (the control), and on one with 1,500 of 15 users, whose `authorize` shows them nothing.
// Usage: node bench/list-streams.mjs [rounds] [seconds] [streams] (after npm run build)
// DIST=<folder>/dist/index.mjs measures another build.
import { once } from "node:events";
import { connect } from "node:net";
import { loadavg } from "node:os";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { cpu, measure, median, startVariants } from "./harness.mjs";

const [rounds = 7, seconds = 2, streams = 1_500] = process.argv[2] === "serve" ? [] : process.argv.slice(2).map(Number);
const perUser = 100;
const connections = 16;

async function serve() {
  const { createServer, defineWorkflow, embedded } = await import(resolve(process.env["DIST"] ?? "dist/index.mjs"));
  const server = createServer({
    workflows: [defineWorkflow({ id: "one" }).andThen({ id: "only", execute: ({ data }) => data })],
    auth: { type: "trusting", verifyToken: (token) => ({ id: token, role: "reader" }) },
    authorize: ({ action, user, execution }) =>
      action === "workflow.execute" || execution?.isOwn === true || user?.role === "admin",
    backend: embedded({ path: ":memory:" }),
  });
  return Number(new URL((await server.listen({ port: 0 })).url).port);
}

/** Opens a stream and reads it, so that it counts as idle and not as slow. Fails if it ends or shows an execution. */
async function follow(port, user) {
  const socket = connect(port, "127.0.0.1").setEncoding("latin1");
  socket.write(`GET /executions/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${user}\r\n\r\n`);
  const [head] = await once(socket, "data");
  if (!head.startsWith("HTTP/1.1 200")) throw new Error(head);
  socket.on("data", (text) => {
    if (text.includes("data:")) throw new Error(text);
  });
  socket.on("close", () => {
    if (!isOver) throw new Error("A stream has ended");
  });
}

/** Returns the share of one processor that a server takes without requests. */
async function idleShare({ child }) {
  const before = await cpu(child);
  await sleep(15_000);
  return ((await cpu(child)) - before) / 15e6;
}

let isOver = false;
const servers = await startVariants(import.meta.filename, { none: serve, control: serve, streams: serve });
if (servers) {
  for (let n = 0; n < streams; n++) await follow(servers.streams.port, `user-${Math.floor(n / perUser)}`);
  const request = {
    connections,
    method: "POST",
    path: "/workflows/one/execute",
    body: '{"input":{"n":1}}',
    headers: "Authorization: Bearer writer\r\n",
  };
  const names = Object.keys(servers);
  const results = Object.fromEntries(names.map((name) => [name, []]));
  for (const server of Object.values(servers)) await measure(server, { ...request, seconds: 4 });
  // Comments keep idle streams open. Their share of a second does not depend on the requests in it.
  const idle = {};
  for (const name of names) idle[name] = await idleShare(servers[name]);
  for (let round = 0; round < rounds; round++)
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const result = await measure(servers[name], { ...request, seconds });
      const own = result.cpu - (idle[name] * 1e6) / result.rps;
      results[name].push({ ...result, perSecond: ((1 - idle[name]) * 1e6) / own });
    }
  console.log(`${streams} streams, ${rounds} rounds of ${seconds} s, load of the machine ${loadavg()[0].toFixed(1)}`);
  for (const name of names) {
    const cpus = results[name].map((result) => result.cpu);
    const ratios = results[name].map(({ perSecond }, round) => perSecond / results.none[round].perSecond);
    // On a busy machine, the round with the least contention says most.
    const best = Math.max(...results[name].map(({ perSecond }) => perSecond));
    const bestOfNone = Math.max(...results.none.map(({ perSecond }) => perSecond));
    console.log(
      `${name.padEnd(8)} ${median(cpus).toFixed(0).padStart(6)} µs CPU per request (least ${Math.min(...cpus).toFixed(0)})  ` +
        `idle ${(idle[name] * 100).toFixed(2)} % CPU  throughput by CPU: median of ratios ${median(ratios).toFixed(3)}, ` +
        `ratio of the best rounds ${(best / bestOfNone).toFixed(3)}`,
    );
  }
  isOver = true;
  for (const { child } of Object.values(servers)) child.kill();
  process.exit();
}
