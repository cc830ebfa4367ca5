// A server on a file, as a process of its own. It loads its code, then waits for orders on stdin, one a line:
// {"start": {"folder", "life"}} opens the store and prints the URL, {"arm": point} ends the process at that point.
import { flushCompileCache } from "node:module";
import { existsSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { toProject } from "../../../src/config/load.ts";
import type { Logger } from "../../../src/core/log.ts";
import { embedded } from "../../../src/index.ts";
import { restate, type RestateBackendOptions } from "../../../src/backends/restate/define.ts";
import { openServer } from "../../../src/server/create.ts";
import { guard, type Point } from "./points.ts";
import { toMendedFile } from "./mended.ts";
import { createWorkflows } from "./workload.ts";
import { keepRecords } from "../../harness/logged.ts";

keepRecords();

export interface Orders {
  start?: Start;
  arm?: Point;
}

interface Start {
  folder: string;
  life: number;
  /** Where it is served from, if that is not a file. */
  cluster?: RestateBackendOptions | undefined;
}

let log = -1;
/** Synchronous: what stands in the log has happened, and what has happened stands in the log. */
const write = (line: string): void => void writeSync(log, `${line}\n`);
const arm = guard((line) => write(`kill ${line}`));

async function start({ folder, life, cluster }: Start): Promise<void> {
  log = openSync(join(folder, "log"), "a");
  write(`life ${life}`);
  const project = toProject({
    workflows: createWorkflows(write, (id) => existsSync(toMendedFile(folder, id))),
    backend: cluster ? restate(cluster) : embedded({ path: join(folder, "data.db") }),
    server: { limits: { inlineSleepMs: 100 } },
  });
  const server = openServer(project, { mode: "start", logger: createLogger() });
  const { url } = await server.listen({ port: 0 });
  console.log(url);
}

/** What the server has to complain about stands in the log, too. Steps that fail are meant to. */
function createLogger(): Logger {
  const nothing = (): void => {};
  const complain = (message: string, data?: Record<string, unknown>): void => {
    if (!message.startsWith("Step "))
      write(`complaint ${message} ${String((data?.["error"] as Error)?.stack)}`.replaceAll("\n", " "));
  };
  return { trace: nothing, debug: nothing, info: nothing, warn: complain, error: complain, fatal: complain };
}

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { arm: point, start: how } = JSON.parse(line) as Orders;
    if (point) arm(point);
    if (how) void start(how);
  })
  // Whoever started this is gone.
  .on("close", () => process.exit());
// The next one loads faster. A process that is killed would not write it.
flushCompileCache();
