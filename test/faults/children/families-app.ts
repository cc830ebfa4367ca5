// Workflows whose steps wait for children of so many items.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { andThen, defineWorkflow, embedded } from "../../../src/index.ts";
import { createLog, type Hosted } from "../../harness/hosted.ts";

export default function create({ folder, items }: { folder: string; items: number }): Hosted {
  const write = createLog(folder);
  const note = (...what: unknown[]): void => write(JSON.stringify(what));

  /** Long, and of many short steps: a crash interrupts one of them at most. */
  const child = defineWorkflow({ id: "child" })
    .andThen({ id: "list", execute: () => Array.from({ length: items }, (_, index) => index) })
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

  return { config: { workflows: [parent, bound, child], backend: embedded({ path: join(folder, "data.db") }) } };
}
