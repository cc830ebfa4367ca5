// A server with an agent, on a file, as a process of its own. It loads its code, then waits for orders on stdin, one a line.
import { openSync, writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { loadSdk } from "../../../src/agents/sdk.ts";
import { toProject } from "../../../src/config/load.ts";
import type { Logger } from "../../../src/core/log.ts";
import { embedded } from "../../../src/index.ts";
import { openServer } from "../../../src/server/create.ts";
import { createGates, type Gates } from "../../harness/gates.ts";
import type { Told } from "./log.ts";
import { guard, type Point } from "./points.ts";
import { createWorkload } from "./workload.ts";
import { keepRecords } from "../../harness/logged.ts";

keepRecords();

export interface Orders {
  /** Opens the store and prints the URL. */
  start?: { folder: string; life: number };
  /** Ends the process at this point. */
  arm?: Point | undefined;
  /** Lets a model go on. */
  open?: string;
}

let log = -1;
let lives = 0;
/** Synchronous: what stands in the log has happened, and what has happened stands in the log. */
const tell = (what: Told): void => void writeSync(log, `${JSON.stringify({ ...what, life: lives })}\n`);
const { pass, arm } = guard(({ point, key }) => tell({ what: "kill", point, key }));
const own = createGates();
const gates: Gates = {
  ...own,
  pass(key) {
    tell({ what: "gate", key });
    return own.pass(key);
  },
};

async function start({ folder, life }: { folder: string; life: number }): Promise<void> {
  lives = life;
  log = openSync(join(folder, "log"), "a");
  const workload = createWorkload({ tell, pass, gates, life });
  const project = toProject({ ...workload, backend: embedded({ path: join(folder, "data.db") }) });
  const server = openServer(project, { mode: "start", logger: createLogger() });
  const { url } = await server.listen({ port: 0 });
  console.log(url);
}

/** What the server has to complain about stands in the log, too. */
function createLogger(): Logger {
  const nothing = (): void => {};
  const complain = (message: string, data?: Record<string, unknown>): void =>
    tell({ what: "complaint", key: `${message} ${String((data?.["error"] as Error)?.stack)}` });
  return { trace: nothing, debug: nothing, info: nothing, warn: complain, error: complain, fatal: complain };
}

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const orders = JSON.parse(line) as Orders;
    if (orders.arm) arm(orders.arm);
    if (orders.open !== undefined) gates.open(orders.open);
    if (orders.start) void start(orders.start);
  })
  // Whoever started this is gone.
  .on("close", () => process.exit());
// The next one loads faster. A process that is killed would not write it.
void loadSdk().then(() => flushCompileCache());
