// A workflow with a limit for each key, on a file. No step ends before the order `open`.
import { join } from "node:path";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { defineWorkflow, embedded } from "../../../src/index.ts";
import { createLog, type Hosted } from "../../harness/hosted.ts";

interface Options {
  readonly folder: string;
  readonly life: number;
  readonly limit: number;
  readonly running: number;
}

export default function create({ folder, life, limit, running }: Options): Hosted {
  const write = createLog(folder);
  write(`life ${life} -`);
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

  const backend = embedded({ path: join(folder, "data.db") });
  const server = { limits: { runningExecutions: running } };
  return { config: { workflows: [grouped, free], backend, server }, orders: { open: () => opened.resolve() } };
}
