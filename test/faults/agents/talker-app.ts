// An agent, and workflows that ask it in every way, on a file. The order `arm` ends the process at a point, `open` opens a gate.
import { join } from "node:path";
import { loadSdk } from "../../../src/agents/sdk.ts";
import { embedded } from "../../../src/index.ts";
import { createGates, type Gates } from "../../harness/gates.ts";
import { createComplaintLogger, createLog, type Hosted } from "../../harness/hosted.ts";
import type { Told } from "./log.ts";
import { guard, type Point } from "./points.ts";
import { createWorkload } from "./workload.ts";

await loadSdk();

interface Options {
  readonly folder: string;
  readonly life: number;
  /** The point at which the process ends itself, from its start on. */
  readonly arm?: Point;
}

export default function create({ folder, life, arm: point }: Options): Hosted {
  const write = createLog(folder);
  const tell = (what: Told): void => write(JSON.stringify({ ...what, life }));
  const { pass, arm } = guard((armed) => tell({ what: "kill", point: armed.point, key: armed.key }));
  if (point) arm(point);
  const own = createGates();
  const gates: Gates = {
    ...own,
    pass(key) {
      tell({ what: "gate", key });
      return own.pass(key);
    },
  };
  return {
    config: {
      ...createWorkload({ tell, pass, gates, life }),
      backend: embedded({ path: join(folder, "data.db") }),
    },
    logger: createComplaintLogger((message, data) =>
      tell({ what: "complaint", key: `${message} ${String((data?.["error"] as Error)?.stack)}` }),
    ),
    orders: { arm, open: gates.open },
  };
}
