// An execution of 5 trivial steps over HTTP: on the embedded backend, on Restate, and as a bare Restate workflow of five
// `ctx.run` that is called through the ingress, without agentserve. One restate-server serves both of the latter.
// Usage: node bench/backends.mjs [rounds] [seconds] (after npm run build, and npm ci in test/restate/server)
// At 32 connections, agentserve on Restate must reach 0.33 of the bare workflow: the ratios to `bare` are printed.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as sdk from "@restatedev/restate-sdk";
import { freePort, RestateServer } from "../test/restate/restate-server.ts";
import { compare, measure, startVariants } from "./harness.mjs";

const names = ["s0", "s1", "s2", "s3", "s4"];

const variants = {
  async bare() {
    const { ingress, admin } = addresses();
    const five = sdk.workflow({
      name: "bare",
      handlers: {
        async run(context, data) {
          for (const name of names) data = await context.run(name, async () => data);
          return data;
        },
      },
    });
    const port = await sdk.serve({ services: [five], port: await freePort(), logger: () => {} });
    const response = await fetch(`${admin}/deployments`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ uri: `http://127.0.0.1:${port}` }),
    });
    if (!response.ok) throw new Error(await response.text());
    return Number(new URL(ingress).port);
  },
  async restate() {
    const { restate } = await import("../dist/backends/restate.mjs");
    return serve(restate({ ...addresses(), name: "bench", serve: { port: await freePort() } }));
  },
  async embedded() {
    const { embedded } = await import("../dist/index.mjs");
    const folder = mkdtempSync(join(tmpdir(), "agentserve-bench-"));
    process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
    process.on("SIGTERM", () => process.exit());
    return serve(embedded({ path: join(folder, "data.db") }));
  },
};

async function serve(backend) {
  const { createServer, defineWorkflow } = await import("../dist/index.mjs");
  let workflow = defineWorkflow({ id: "five" });
  for (const id of names) workflow = workflow.andThen({ id, execute: async ({ data }) => data });
  return (await createServer({ workflows: [workflow], backend }).listen({ port: 0 })).port;
}

/** The addresses of the restate-server that the parent process has started. */
function addresses() {
  const { BENCH_RESTATE_INGRESS: ingress, BENCH_RESTATE_ADMIN: admin } = process.env;
  return { ingress, admin };
}

const restateServer = process.argv[2] === "serve" ? undefined : await RestateServer.start();
if (restateServer) {
  process.env["BENCH_RESTATE_INGRESS"] = restateServer.ingress;
  process.env["BENCH_RESTATE_ADMIN"] = restateServer.admin;
}
const servers = await startVariants(import.meta.filename, variants);
if (servers) {
  const [rounds = 9, seconds = 3] = process.argv.slice(2).map(Number);
  const execute = {
    seconds,
    method: "POST",
    path: "/workflows/five/execute",
    body: JSON.stringify({ input: { n: 1 } }),
  };
  const run = { ...execute, path: "/bare/{id}/run", body: JSON.stringify({ n: 1 }) };
  const requestOf = (name) => (name === "bare" ? run : execute);
  // Warm-up, until the JIT has compiled the hot code.
  for (const [name, server] of Object.entries(servers))
    await measure(server, { ...requestOf(name), seconds: 5, connections: 16 });
  for (const connections of [1, 32]) await compare(servers, requestOf, { rounds, connections });
  for (const { child } of Object.values(servers)) child.kill();
  await restateServer.remove();
}
