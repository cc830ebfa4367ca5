// A replica of one version of two workflows: node deploy-host.ts <name> <port> <url> <version> <file>. It prints its address.
// The second version renames a later step of `later`, and a step of `begun` that has started. Steps wait for the file.
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { defineConfig, defineWorkflow } from "../../src/index.ts";
import { restate } from "../../src/backends/restate/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";

const [name = "", port = "", url = "", version = "", file = ""] = process.argv.slice(2);
const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;
const isNew = version === "2";

const toWorkflow = (id: string, first: string, last: string) =>
  defineWorkflow({ id })
    .andThen({ id: first, execute: () => first })
    .andThen({
      id: "middle",
      async execute({ executionId, data, suspend, resumeData, signal }) {
        if (executionId.startsWith("suspended")) return resumeData === undefined ? suspend("Waits") : data;
        console.log(`step ${executionId}`);
        while (!existsSync(file)) await sleep(50, undefined, { signal });
        return data;
      },
    })
    .andThen({ id: last, execute: ({ data }) => `${String(data)} ${last}` });
const workflows = [
  toWorkflow("later", "first", isNew ? "final" : "last"),
  toWorkflow("begun", isNew ? "start" : "first", "last"),
];
const backend = restate({ ingress, admin, name, serve: { port: Number(port), url } });
const config = defineConfig({ workflows, backend, server: { limits: { drainMs: 100, drainNoticeMs: 0 } } });
const server = openServer(toProject(config), { mode: "start", logger: console as never });
const { url: address } = await server.listen({ port: 0 });
process.on("SIGTERM", () => void server.close().then(() => process.exit(0)));
await server.fetch(new Request("http://localhost/doc"));
console.log(`ready ${address}`);
