// A replica as a process: node replica-host.ts <name> <port> <url>. It prints its address, and a line for each step that starts.
import { defineConfig, defineWorkflow } from "../../src/index.ts";
import { restate } from "../../src/backends/restate/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";

const [name = "", port = "", url = ""] = process.argv.slice(2);
const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

const step = (id: string) => ({
  id,
  execute: async ({ executionId }: { executionId: string }) => {
    console.log(`step ${executionId} ${id} ${Date.now()}`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    return id;
  },
});
const slow = defineWorkflow({ id: "slow" })
  .andThen(step("s1"))
  .andThen(step("s2"))
  .andThen(step("s3"))
  .andThen(step("s4"));
const backend = restate({ ingress, admin, name, serve: { port: Number(port), url } });
const config = defineConfig({ workflows: [slow], backend });
const server = openServer(toProject(config), { mode: "start", logger: console as never });
const { url: address } = await server.listen({ port: 0 });
await server.fetch(new Request("http://localhost/doc"));
console.log(`ready ${address}`);
