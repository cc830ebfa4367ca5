// The workflows of the kills, on a file or on Restate. The order `arm` ends the process at a point of the store.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { embedded } from "../../../src/index.ts";
import { restate, type RestateBackendOptions } from "../../../src/backends/restate/define.ts";
import { withBounds } from "../../harness/bounds.ts";
import { createComplaintLogger, createLog, type Hosted } from "../../harness/hosted.ts";
import { guard } from "./points.ts";
import { toMendedFile } from "./mended.ts";
import { createWorkflows } from "./workload.ts";

interface Options {
  readonly folder: string;
  readonly life: number;
  /** @default the file `data.db` of the folder */
  readonly cluster?: RestateBackendOptions;
}

export default function create({ folder, life, cluster }: Options): Hosted {
  const write = createLog(folder);
  write(`life ${life}`);
  return {
    config: withBounds(
      { inlineSleepMs: 100 },
      {
        workflows: createWorkflows(write, (id) => existsSync(toMendedFile(folder, id))),
        backend: cluster ? restate(cluster) : embedded({ path: join(folder, "data.db") }),
      },
    ),
    // Steps that fail are meant to.
    logger: createComplaintLogger((message, data) => {
      if (!message.startsWith("Step "))
        write(`complaint ${message} ${String((data?.["error"] as Error)?.stack)}`.replaceAll("\n", " "));
    }),
    orders: { arm: guard((line) => write(`kill ${line}`)) },
  };
}
