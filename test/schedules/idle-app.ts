// So many schedules, none of which is due within the next hours. The order `share` returns the share of a processor that the
// server takes while nothing is due.
import { setTimeout as sleep } from "node:timers/promises";
import { defineSchedule, defineWorkflow, embedded } from "../../src/index.ts";
import { createComplaintLogger, type Hosted } from "../harness/hosted.ts";

const note = defineWorkflow({ id: "note" }).andThen({ id: "note", execute: () => "done" });

export default function create({ count }: { count: number }): Hosted {
  const hour = (new Date().getUTCHours() + 6) % 24;
  const schedules = Array.from({ length: count }, (_, index) =>
    defineSchedule({ id: `s${index}`, cron: `${index % 60} ${hour} * * *`, timezone: "Etc/UTC", workflow: note }),
  );
  return {
    config: { workflows: [note], schedules, backend: embedded({ path: ":memory:" }) },
    logger: createComplaintLogger(() => {}),
    orders: {
      async share(ms: number): Promise<number> {
        const before = process.cpuUsage();
        await sleep(ms);
        const { user, system } = process.cpuUsage(before);
        return (user + system) / 1_000 / ms;
      },
    },
  };
}
