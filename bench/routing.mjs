// The cost of h3's routing and Response for a built-in route, compared with the rou3 table and envelope in use.
// Usage: node bench/routing.mjs [rounds] [seconds]. Prints the server's CPU per request and requests per second. The
// variants alternate within one run.
import { once } from "node:events";
import { createServer } from "node:http";
import { measure, median, startVariants } from "./harness.mjs";

const variants = {
  // The floor: the same work on bare node:http.
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
  // A route of the table, like every built-in endpoint.
  async table() {
    const { openServer } = await import("../src/server/create.ts");
    const { toProject } = await import("../src/config/load.ts");
    const { testRows } = await import("../test/harness/rows.ts");
    const server = openServer(toProject({}), { mode: "start", extraRoutes: testRows, file: ":memory:" });
    return (await server.listen({ port: 0 })).port;
  },
  // The same route in h3: its router, events and Response around the `run` of the route.
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

const servers = await startVariants(import.meta.filename, variants);
if (servers) {
  const [rounds = 3, seconds = 3] = process.argv.slice(2).map(Number);
  const request = { connections: 16, seconds, method: "POST", path: "/test/echo", body: JSON.stringify({ n: 1 }) };
  const results = Object.fromEntries(Object.keys(servers).map((name) => [name, []]));
  for (const server of Object.values(servers)) await measure(server, request); // warm-up
  for (let round = 0; round < rounds; round++) {
    for (const [name, server] of Object.entries(servers)) results[name].push(await measure(server, request));
  }
  for (const { child } of Object.values(servers)) child.kill();
  const of = (name, key) => median(results[name].map((one) => one[key]));
  const row = (name) => ({
    "CPU µs per request": +of(name, "cpu").toFixed(1),
    "requests/s": Math.round(of(name, "rps")),
  });
  console.table(Object.fromEntries(Object.keys(results).map((name) => [name, row(name)])));
  console.log(`h3 costs ${(of("h3", "cpu") - of("table", "cpu")).toFixed(1)} µs more per request than the table`);
}
