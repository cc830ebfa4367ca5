// A durable execution of 5 trivial steps over HTTP on a file, compared with bare node:http and the same work in memory.
// Usage: node bench/execute.mjs [rounds] [seconds] (after npm run build)
// AGAINST=<folder of another commit, built> compares with that commit: AGAINST=../before node bench/execute.mjs 10 3
// CHECKPOINTS=<pages>,<pages> compares sizes of the write-ahead log at which it is checkpointed, beside bare node:http:
// CHECKPOINTS=16000,1000 node bench/execute.mjs 10 3
// INPUT_BYTES=<number> sends larger inputs, so that the log fills sooner.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { compare, measure, startVariants } from "./harness.mjs";

const steps = Array.from(
  { length: 5 },
  () =>
    async ({ data }) =>
      data,
);
const variants = {
  async bare() {
    const server = createHttpServer((req, res) => {
      let text = "";
      req.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      req.on("end", async () => {
        const startAt = new Date().toISOString();
        let data = JSON.parse(text).input;
        for (const step of steps) data = await step({ data });
        const result = {
          executionId: crypto.randomUUID(),
          startAt,
          endAt: new Date().toISOString(),
          status: "completed",
          result: data,
        };
        const answer = JSON.stringify({ success: true, data: result });
        res.writeHead(200, { "content-type": "application/json", "content-length": answer.length }).end(answer);
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return server.address().port;
  },
  before: () => serve(resolve(process.env["AGAINST"], "dist/index.mjs")),
  agentserve: () => serve("../dist/index.mjs"),
};

async function serve(file, checkpoint) {
  const { exec } = DatabaseSync.prototype;
  if (checkpoint)
    DatabaseSync.prototype.exec = function (sql) {
      return exec.call(this, sql.replace(/(?<=wal_autocheckpoint = )\d+/, checkpoint));
    };
  const { createServer, defineWorkflow, embedded } = await import(file);
  const folder = mkdtempSync(join(tmpdir(), "agentserve-bench-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  process.on("SIGTERM", () => process.exit());
  let workflow = defineWorkflow({ id: "five" });
  for (const [index, execute] of steps.entries()) workflow = workflow.andThen({ id: `s${index}`, execute });
  const server = createServer({ workflows: [workflow], backend: embedded({ path: join(folder, "data.db") }) });
  return (await server.listen({ port: 0 })).port;
}

const { AGAINST, CHECKPOINTS, INPUT_BYTES = 0 } = process.env;
const { bare, before, agentserve } = variants;
const checkpoints = (CHECKPOINTS?.split(",") ?? []).map((pages) => [
  `${pages} pages`,
  () => serve("../dist/index.mjs", pages),
]);
const compared = AGAINST ? { before, agentserve } : { bare, agentserve };
const servers = await startVariants(
  import.meta.filename,
  CHECKPOINTS ? { ...Object.fromEntries(checkpoints), bare } : compared,
);
if (servers) {
  const [rounds = 9, seconds = 1] = process.argv.slice(2).map(Number);
  const request = {
    seconds,
    method: "POST",
    path: "/workflows/five/execute",
    body: JSON.stringify({ input: { n: 1, text: "x".repeat(Number(INPUT_BYTES)) } }),
  };
  // Warm-up, until the JIT has compiled the hot code.
  for (const server of Object.values(servers)) await measure(server, { ...request, seconds: 8, connections: 16 });
  for (const connections of [16, 64]) await compare(servers, request, { rounds, connections });
  for (const { child } of Object.values(servers)) child.kill();
}
