import { openSync, writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { loadSdk } from "../../../src/agents/sdk.ts";
import { toProject } from "../../../src/config/load.ts";
import { embedded, type Config } from "../../../src/index.ts";
import { openServer } from "../../../src/server/create.ts";
import { keepRecords } from "../../harness/logged.ts";
import type { Orders } from "./host.ts";

interface Life<Line> {
  readonly folder: string;
  readonly life: number;
  /** Adds a line to the log. Synchronous: a line is there if it has happened, and it has happened if its line is there. */
  tell(line: Omit<Line, "life">): void;
}

/** Serves a config on a file, as a process. It loads its code, then waits for orders on stdin, one a line. */
export function serveOrders<Line>(toConfig: (life: Life<Line>) => Config): void {
  keepRecords();
  async function start({ folder, life }: NonNullable<Orders["start"]>): Promise<void> {
    const file = openSync(join(folder, "log"), "a");
    const tell: Life<Line>["tell"] = (line) => void writeSync(file, `${JSON.stringify({ ...line, life })}\n`);
    const config = { ...toConfig({ folder, life, tell }), backend: embedded({ path: join(folder, "data.db") }) };
    const { url } = await openServer(toProject(config), { mode: "start" }).listen({ port: 0 });
    console.log(url);
  }
  createInterface({ input: process.stdin })
    .on("line", (line) => {
      const orders = JSON.parse(line) as Orders;
      if (orders.start) void start(orders.start);
    })
    // The test has ended.
    .on("close", () => process.exit());
  // The next one loads faster. A process that is killed would not write it.
  void loadSdk().then(() => flushCompileCache());
}
