// A replica whose steps may end its process: node crash-host.ts <name> <port> <url> <folder>. It prints its address.
// A step looks for files in the folder: `cured` ends what ends the process, or hangs.
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defineConfig, defineWorkflow, type StepContext } from "../../src/index.ts";
import { restate } from "../../src/backends/restate/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";

const [name = "", port = "", url = "", folder = ""] = process.argv.slice(2);
const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;
const note = ({ idempotencyKey }: StepContext): void => appendFileSync(join(folder, "ran"), `${idempotencyKey}\n`);
const isCured = (): boolean => existsSync(join(folder, "cured"));

/** A step that ends the process in some way. */
const deadly = (id: string, end: () => void) =>
  defineWorkflow({ id })
    .andThen({ id: "before", execute: note })
    .andThen({
      id: "deadly",
      execute(context) {
        note(context);
        if (!isCured()) end();
        return "survived";
      },
    });
const slow = defineWorkflow({ id: "slow" })
  .andThen({ id: "first", execute: note })
  .andThen({
    id: "second",
    async execute(context) {
      note(context);
      await sleep(500);
      return "made it";
    },
  });
const hanging = defineWorkflow({ id: "hanging" }).andThen({
  id: "hangs",
  async execute(context) {
    note(context);
    while (!isCured()) await sleep(20, undefined, { signal: context.signal });
    return "survived";
  },
});
/** Every step ends the process when it first runs. */
const progressing = [1, 2, 3, 4, 5].reduce(
  (chain, n) =>
    chain.andThen({
      id: `s${n}`,
      execute(context: StepContext) {
        note(context);
        if (existsSync(join(folder, `s${n}`))) return "done";
        writeFileSync(join(folder, `s${n}`), "");
        process.exit(1);
      },
    }),
  defineWorkflow({ id: "progressing" }) as any, // the type follows each step
);
const workflows = [
  deadly("exits", () => process.exit(1)),
  deadly("aborts", () => process.abort()),
  slow,
  hanging,
  progressing,
];
const backend = restate({ ingress, admin, name, serve: { port: Number(port), url } });
const config = defineConfig({ workflows, backend, server: { limits: { drainMs: 10, drainNoticeMs: 0 } } });
const server = openServer(toProject(config), { mode: "start", logger: console as never });
const { url: address } = await server.listen({ port: 0 });
process.on("SIGTERM", () => void server.close().then(() => process.exit(0)));
await server.fetch(new Request("http://localhost/doc"));
console.log(`ready ${address}`);
