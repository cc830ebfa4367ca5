// A server on a file, as a process that is killed and started again. Its argument is a JSON text: `HostOptions`.
import { openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { toProject } from "../../../src/config/load.ts";
import { defineWorkflow, embedded } from "../../../src/index.ts";
import { openServer } from "../../../src/server/create.ts";
import { createTestLogger } from "../../harness/server.ts";

export interface HostOptions {
  readonly folder: string;
  readonly life: number;
  readonly limit: number;
  readonly running: number;
}

const { folder, life, limit, running } = JSON.parse(process.argv[2]!) as HostOptions;
const log = openSync(join(folder, "log"), "a");
/** Synchronous: everything that has happened is in the log. */
const write = (line: string): void => void writeSync(log, `${line}\n`);
write(`life ${life} -`);
/** No step ends before the test has sent a line. */
const opened = Promise.withResolvers<void>();

const grouped = defineWorkflow({
  id: "grouped",
  input: v.object({ key: v.string(), ms: v.number(), asks: v.boolean() }),
  concurrency: { limit, key: ({ input }) => input.key },
}).andThen({
  id: "work",
  execute: async ({ data: { key, ms, asks }, executionId, resumeData, suspend, signal }) => {
    write(`begin ${key} ${executionId}`);
    let hasEnded = false;
    const end = (): void => {
      if (!hasEnded) write(`end ${key} ${executionId}`);
      hasEnded = true;
    };
    signal.addEventListener("abort", end); // a cancelled execution does not count, although its code still runs
    await opened.promise;
    await (ms === 0 ? nextTurn() : sleep(ms));
    end();
    return asks && resumeData === undefined ? suspend("go on?") : key;
  },
});
const free = defineWorkflow({ id: "free" }).andThen({ id: "work", execute: () => "free" });

const server = openServer(
  toProject({
    workflows: [grouped, free],
    backend: embedded({ path: join(folder, "data.db") }),
    server: { limits: { runningExecutions: running } },
  }),
  { mode: "start", logger: createTestLogger([]) },
);
const { url } = await server.listen({ port: 0 });
console.log(url);
process.stdin.on("data", () => opened.resolve()).on("end", () => process.exit()); // at the end the test is gone
