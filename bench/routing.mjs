// What h3's own routing and Response path would cost a built-in row, beside the rou3 table and envelope that it has.
// node bench/routing.mjs [rounds] [seconds]: CPU of the server per request, and requests per second, alternating in one run.
import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";

const body = JSON.stringify({ n: 1 });
const variants = {
  // The same work on bare node:http: the floor.
  async bare() {
    const server = createServer((req, res) => {
      let text = "";
      req.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      req.on("end", () => {
        const answer = JSON.stringify({ success: true, data: { n: JSON.parse(text).n } });
        res.writeHead(200, { "content-type": "application/json", "content-length": answer.length }).end(answer);
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return server.address().port;
  },
  // A row of the table, as every built-in endpoint is.
  async table() {
    const { openServer } = await import("../src/server/create.ts");
    const { toProject } = await import("../src/config/load.ts");
    const { testRows } = await import("../test/harness/rows.ts");
    const server = openServer(toProject({}), { mode: "start", rows: testRows, file: ":memory:" });
    return (await server.listen({ port: 0 })).port;
  },
  // The same row as an h3 route: h3's router, events and Response around the row's own `run`.
  async h3() {
    const { openServer } = await import("../src/server/create.ts");
    const { toProject } = await import("../src/config/load.ts");
    const { testRows } = await import("../test/harness/rows.ts");
    const { toEnvelope } = await import("../src/http/envelope.ts");
    const row = testRows.find(({ path }) => path === "/test/echo");
    const limits = { bodyBytes: 2_097_152, jsonDepth: 100 };
    const configureApp = (app) =>
      app.post(
        row.path,
        async ({ req: request, url: { searchParams: search }, context: { params = {}, requestId } }) => {
          const value = await row.run({ request, params, search, requestId, limits, unknownKey() {} });
          return toEnvelope(value, []).toResponse();
        },
      );
    const server = openServer(toProject({ configureApp }), { mode: "start", file: ":memory:" });
    return (await server.listen({ port: 0 })).port;
  },
};

if (process.argv[2] === "serve") {
  process.send(await variants[process.argv[3]]());
  process.on("message", () => process.send(process.cpuUsage()));
} else {
  const [rounds = 3, seconds = 3] = process.argv.slice(2).map(Number);
  const servers = {};
  for (const name of Object.keys(variants)) {
    const child = fork(import.meta.filename, ["serve", name]);
    const [port] = await once(child, "message");
    servers[name] = { child, port, cpu: [], rps: [] };
  }
  for (let round = 0; round <= rounds; round++) {
    for (const server of Object.values(servers)) {
      const before = await usage(server.child);
      const { rps, count, failed } = await load(server.port);
      const after = await usage(server.child);
      if (failed) throw new Error(`${failed} requests failed`);
      if (round === 0) continue; // warm-up
      server.cpu.push((after - before) / count);
      server.rps.push(rps);
    }
  }
  for (const { child } of Object.values(servers)) child.kill();
  const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
  const row = (name) => ({
    "CPU µs per request": +median(servers[name].cpu).toFixed(1),
    "requests/s": Math.round(median(servers[name].rps)),
  });
  console.table(Object.fromEntries(Object.keys(servers).map((name) => [name, row(name)])));
  const more = median(servers.h3.cpu) - median(servers.table.cpu);
  console.log(`h3 costs ${more.toFixed(1)} µs more per request than the table`);

  async function usage(child) {
    child.send("cpu");
    const [{ user, system }] = await once(child, "message");
    return user + system;
  }
  async function load(port) {
    const args = ["bench/load.mjs", port, 16, seconds, "POST", "/test/echo", body];
    const child = spawn(process.execPath, args.map(String), { stdio: ["ignore", "pipe", "inherit"] });
    const [text] = await once(child.stdout, "data");
    return JSON.parse(text);
  }
}
