// The processor time of a server without schedules and with 1,000. Its argument is the time of each measurement, in ms.
import { setTimeout as sleep } from "node:timers/promises";
import { toProject } from "../../src/config/load.ts";
import { defineSchedule, defineWorkflow, embedded, type ScheduleDefinition } from "../../src/index.ts";
import { openServer } from "../../src/server/create.ts";
import { createTestLogger } from "../harness/server.ts";

const ms = Number(process.argv[2]);
const note = defineWorkflow({ id: "note" }).andThen({ id: "note", execute: () => "done" });
/** None of them is due within the next hours. */
const hour = (new Date().getUTCHours() + 6) % 24;
const schedules = Array.from({ length: 1_000 }, (_, index) =>
  defineSchedule({ id: `s${index}`, cron: `${index % 60} ${hour} * * *`, timezone: "Etc/UTC", workflow: note }),
);

async function measure(served: ScheduleDefinition[]): Promise<{ share: number; listMs: number }> {
  const config = { workflows: [note], schedules: served, backend: embedded({ path: ":memory:" }) };
  const server = openServer(toProject(config), { mode: "start", logger: createTestLogger([]) });
  await server.listen({ port: 0 });
  const list = async (): Promise<number> => {
    const before = process.cpuUsage();
    const response = await server.fetch(new Request("http://localhost/schedules"));
    const { data } = (await response.json()) as { data: unknown[] };
    if (data.length !== served.length) throw new Error(`${data.length} schedules are listed`);
    return Math.round(toMs(process.cpuUsage(before)));
  };
  await list();
  await sleep(2_000); // until all are stored, and garbage is collected
  const before = process.cpuUsage();
  await sleep(ms);
  const share = toMs(process.cpuUsage(before)) / ms;
  const listMs = await list();
  await server.close();
  return { share, listMs };
}
const toMs = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1_000;

const { share: idle } = await measure([]);
process.send!({ idle, ...(await measure(schedules)) });
