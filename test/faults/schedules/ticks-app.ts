// Schedules on a file. The log has the steps of each tick, and the ticks that were left out.
import { join } from "node:path";
import { defineSchedule, defineWorkflow, embedded } from "../../../src/index.ts";
import { createComplaintLogger, createLog, type Hosted } from "../../harness/hosted.ts";

export default function create({ folder }: { folder: string }): Hosted {
  const write = createLog(folder);

  const note = defineWorkflow({ id: "note" })
    .andThen({ id: "one", execute: ({ executionId }) => write(`one ${executionId}`) })
    .andThen({ id: "two", execute: ({ executionId }) => write(`two ${executionId}`) });
  const schedules = [
    defineSchedule({ id: "every", every: "1s", workflow: note, overlap: "allow", catchUp: "1h" }),
    defineSchedule({ id: "cron", cron: "*/2 * * * * *", workflow: note, overlap: "queue", catchUp: "1h" }),
    defineSchedule({ id: "missing", every: "1s", workflow: note, overlap: "allow" }),
  ];
  const logger = createComplaintLogger(() => {});
  /** A tick that overlap `queue` has left out, on a machine so busy that two earlier ones have not ended. */
  logger.info = (message) => {
    const [, id, at] = /^Schedule (\w+) left out (\S+):/.exec(message) ?? [];
    if (id) write(`left schedule:${id}:${at}`);
  };
  return { config: { workflows: [note], schedules, backend: embedded({ path: join(folder, "data.db") }) }, logger };
}
