// A server as a process of its own, whose log a test fills through a route: node --expose-gc log-host.ts <limits as JSON>
import { runInScope } from "../../../src/core/scope.ts";
import { createServer } from "../../../src/server/create.ts";
import { chosenBackend } from "../../harness/backends.ts";
import { keepRecords } from "../../harness/logged.ts";

keepRecords();

const limits = JSON.parse(process.argv[2] ?? "{}");
const silent = { info() {}, warn() {}, error() {} };
const pad = "x".repeat(200);
let written = 0;
const server = createServer({
  logger: silent,
  backend: chosenBackend.create(),
  server: { limits },
  configureApp: (app) =>
    void app.post("/write", async (event) => {
      const many = Number(event.url.searchParams.get("many"));
      for (let left = many; left > 0; left--) {
        // Every third belongs to an agent, so that a filter has something to leave out.
        const n = ++written;
        const ids = n % 3 === 0 ? { agentId: "third" } : {};
        runInScope(ids, () => event.context.logger!.info("Written", { n, pad }));
        if (left % 250 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      return String(written);
    }),
});
const { url } = await server.listen({ port: 0 });
process.send!(url);
process.on("message", () => {
  for (let i = 0; i < 3; i++) globalThis.gc!();
  const { heapUsed, external, arrayBuffers, rss } = process.memoryUsage();
  process.send!({ heap: heapUsed + external + arrayBuffers, rss });
});
