// A server with schedules on a file, as a process that is killed and started again. Its argument is the folder.
import { openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { toProject } from "../../../src/config/load.ts";
import { defineSchedule, defineWorkflow, embedded } from "../../../src/index.ts";
import { openServer } from "../../../src/server/create.ts";
import { createTestLogger } from "../../harness/server.ts";

const folder = process.argv[2]!;
const log = openSync(join(folder, "log"), "a");
/** Synchronous: everything that has happened is in the log. */
const write = (line: string): void => void writeSync(log, `${line}\n`);

const note = defineWorkflow({ id: "note" })
  .andThen({ id: "one", execute: ({ executionId }) => write(`one ${executionId}`) })
  .andThen({ id: "two", execute: ({ executionId }) => write(`two ${executionId}`) });
const schedules = [
  defineSchedule({ id: "every", every: "1s", workflow: note, overlap: "allow", catchUp: "1h" }),
  defineSchedule({ id: "cron", cron: "*/2 * * * * *", workflow: note, overlap: "queue", catchUp: "1h" }),
  defineSchedule({ id: "missing", every: "1s", workflow: note, overlap: "allow" }),
];
const logger = createTestLogger([]);
/** A tick that overlap `queue` has left out, on a machine so busy that two earlier ones have not ended. */
logger.info = (message) => {
  const [, id, at] = /^Schedule (\w+) left out (\S+):/.exec(message) ?? [];
  if (id) write(`left schedule:${id}:${at}`);
};
const server = openServer(
  toProject({ workflows: [note], schedules, backend: embedded({ path: join(folder, "data.db") }) }),
  { mode: "start", logger },
);
const { url } = await server.listen({ port: 0 });
console.log(url);
process.stdin.resume().on("end", () => process.exit()); // the test is gone
