// A server whose steps wait for children, as a process that is killed and started again: node host.ts <folder> <items>
import { openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { andThen, createServer, defineWorkflow, embedded } from "../../../src/index.ts";
import { keepRecords } from "../../harness/logged.ts";

keepRecords();
const [folder = "", items = ""] = process.argv.slice(2);
const log = openSync(join(folder, "log"), "a");
/** Synchronous: everything that has happened is in the log. */
const note = (...what: unknown[]): void => void writeSync(log, `${JSON.stringify(what)}\n`);

/** Long, and of many short steps: a crash interrupts one of them at most. */
const child = defineWorkflow({ id: "child" })
  .andThen({ id: "list", execute: () => Array.from({ length: Number(items) }, (_, index) => index) })
  .andForEach({
    id: "each",
    step: andThen({
      id: "work",
      async execute({ data, executionId }) {
        note("work", executionId, data);
        await sleep(10);
        return data;
      },
    }),
  })
  .andThen({ id: "count", execute: ({ data }) => data.length });

const parent = defineWorkflow({ id: "parent" })
  .andThen({
    id: "waits",
    async execute({ runtime, executionId }) {
      const handle = await runtime.start(child, { of: executionId });
      note("started", executionId, handle.executionId);
      return handle.result();
    },
  })
  .andThen({ id: "ends", execute: ({ data }) => data });

/** Starts a child of its own that ends with it, and waits. */
const bound = defineWorkflow({ id: "bound" }).andThen({
  id: "waits",
  execute: ({ runtime }) => runtime.execute(child, {}, { cancelWith: "parent" }),
});

const server = createServer({
  workflows: [parent, bound, child],
  backend: embedded({ path: join(folder, "data.db") }),
});
console.log((await server.listen({ port: 0 })).url);
