// Many readers of the log: 1,000 sockets on /ws/logs, 10 records a second, 20 seconds. Measures what each socket gets,
// and when. The server and the clients are separate processes.
// Usage: node bench/sockets.mjs [sockets] [records a second] [seconds] (after npm run build)
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

const processes = 2; // client processes
const [role, ...rest] = process.argv.slice(2);
if (role === "serve") await serve();
else if (role === "read") await read(...rest.map(Number));
else await bench(...[role, ...rest].filter(Boolean).map(Number));

async function bench(sockets = 1_000, rate = 10, seconds = 20) {
  const server = fork(import.meta.filename, ["serve"]);
  const [port] = await once(server, "message");
  const readers = Array.from({ length: processes }, (_, n) => {
    const own = Math.floor(sockets / processes) + (n < sockets % processes ? 1 : 0);
    return fork(import.meta.filename, ["read", port, own, rate * seconds].map(String));
  });
  await Promise.all(readers.map((reader) => once(reader, "message"))); // every socket has its snapshot
  const before = await ask(server, "usage");
  const start = performance.now();
  await ask(server, { rate, count: rate * seconds });
  const took = (performance.now() - start) / 1_000;
  const after = await ask(server, "usage");
  await sleep(2_000); // for late records
  const results = await Promise.all(readers.map((reader) => ask(reader, "result")));
  const sum = (key) => results.reduce((total, one) => total + one[key], 0);
  const latencies = Float64Array.from(results.flatMap((one) => one.latencies)).toSorted();
  const at = (share) => latencies[Math.floor((latencies.length - 1) * share)]?.toFixed(1);
  const wanted = sockets * rate * seconds;
  const cpu = after.cpu - before.cpu;
  console.log(
    `${sockets} sockets × ${rate} records/s × ${seconds} s  delivered ${sum("delivered")} of ${wanted}  lost ${wanted - sum("delivered")}` +
      `  DROPPED ${sum("dropped")}  out of order ${sum("wrong")}  closed ${sum("closed")}`,
  );
  console.log(
    `latency p50 ${at(0.5)} ms  p99 ${at(0.99)} ms  max ${at(1)} ms  CPU of the server ${(cpu / took / 10_000).toFixed(0)} %, ` +
      `${(cpu / wanted).toFixed(1)} µs a message  RSS ${Math.round(after.rss / 1_048_576)} MiB  (${took.toFixed(1)} s)`,
  );
  for (const child of [server, ...readers]) child.kill();
  if (sum("delivered") !== wanted || sum("wrong") > 0) process.exitCode = 1;
}

async function ask(child, what) {
  child.send(what);
  const [answer] = await once(child, "message");
  return answer;
}

/** Runs the server. Its log is not written anywhere else. */
async function serve() {
  const { createServer, embedded } = await import("../dist/index.mjs");
  let logger;
  const server = createServer({
    logger: { info() {}, warn() {}, error() {} },
    backend: embedded({ path: ":memory:" }),
    configureApp: (app) =>
      void app.get("/logger", (event) => {
        logger = event.context.logger;
        return "ok";
      }),
  });
  const { port } = await server.listen({ port: 0 });
  await fetch(`http://127.0.0.1:${port}/logger`);
  process.on("message", async (what) => {
    if (what === "usage") {
      const { user, system } = process.cpuUsage();
      return process.send({ cpu: user + system, rss: process.memoryUsage().rss });
    }
    const start = performance.now();
    for (let n = 1; n <= what.count; n++) {
      await sleep(Math.max(0, start + (n * 1_000) / what.rate - performance.now()));
      // A clock that all processes of a machine share.
      logger.info("A record of the bench", { n, at: performance.timeOrigin + performance.now() });
    }
    return process.send("done");
  });
  process.send(port);
}

/** Opens the sockets and counts the records that they get. */
async function read(port, sockets) {
  const { WebSocket } = await import("ws");
  const latencies = [];
  const result = { delivered: 0, dropped: 0, wrong: 0, closed: 0 };
  const open = () =>
    new Promise((resolve, reject) => {
      const ws = new WebSocket(`ws://127.0.0.1:${port}/ws/logs?limit=1`);
      let last = 0;
      ws.on("error", reject);
      ws.on("close", () => result.closed++);
      ws.on("message", (text) => {
        const now = performance.timeOrigin + performance.now();
        const { type, data } = JSON.parse(text);
        if (type === "LOGS_SNAPSHOT") return resolve();
        if (type === "DROPPED") return void (result.dropped += data.count);
        const { n, at } = data.data;
        if (n <= last) result.wrong++;
        last = n;
        result.delivered++;
        latencies.push(now - at);
      });
    });
  for (let left = sockets; left > 0; left -= 50) await Promise.all(Array.from({ length: Math.min(50, left) }, open));
  process.on("message", () => process.send({ ...result, latencies }));
  process.send("ready");
}
