import { isId } from "../../core/id.ts";
import { toObject } from "../../core/json.ts";
import { toShellWord } from "../../core/terminal/shell.ts";
import { InterruptError, interruptible, withKnownIds } from "../call/call.ts";
import { Client } from "../call/client.ts";
import { ConnectionError, notOurs } from "../call/failure.ts";
import { toShort, toShortId } from "../call/screen.ts";
import { toTarget } from "../call/target.ts";
import { printNote, print, printJson } from "../output.ts";
import { toMoment } from "../runs/times.ts";
import { UsageError } from "../usage.ts";
import { toScheduleLines } from "./list.ts";

export interface SchedulesFlags {
  readonly url?: string;
  readonly token?: string;
  readonly json?: boolean;
}

/** Prints the schedules that the caller may read. */
export async function listSchedules(flags: SchedulesFlags): Promise<void> {
  const client = open(flags);
  const schedules = await client.get("/schedules");
  if (!Array.isArray(schedules)) throw notOurs(client.target);
  if (flags.json) return printJson(schedules);
  if (schedules.length === 0) return printNote("no schedules found; create one with defineSchedule() in schedules/");
  toScheduleLines(schedules, Date.now()).forEach(print);
  const { id } = toObject(schedules[0]);
  printNote(`start one now with: npx agentserve schedules trigger ${toWord(id)}${client.target.flag}`);
}

/** Starts an execution of a schedule, and prints its id. */
export async function triggerSchedule(id: string, flags: SchedulesFlags): Promise<void> {
  const client = open(flags);
  const started = toObject(
    await send(client, id, "trigger").catch((error: unknown) => {
      const isUncertain = error instanceof InterruptError || (error instanceof ConnectionError && error.wasSent);
      const hint = `the execution may have started; list the newest with: npx agentserve runs${client.target.flag}`;
      throw isUncertain ? Object.assign(error, { hint }) : error;
    }),
  );
  const { executionId } = started;
  if (typeof executionId !== "string") throw notOurs(client.target);
  if (flags.json) return printJson(started);
  print(`execution ${toShortId(executionId)} started`);
  printNote(`show it with: npx agentserve runs show ${toWord(executionId)}${client.target.flag}`);
}

export async function pauseSchedule(id: string, flags: SchedulesFlags): Promise<void> {
  await change(id, "pause", flags);
}

export async function resumeSchedule(id: string, flags: SchedulesFlags): Promise<void> {
  await change(id, "resume", flags);
}

/** Pauses or resumes a schedule, and prints the state that the server answers with. */
async function change(id: string, action: "pause" | "resume", flags: SchedulesFlags): Promise<void> {
  const client = open(flags);
  const schedule = toObject(await send(client, id, action));
  const { paused, nextAt } = schedule;
  if (typeof paused !== "boolean") throw notOurs(client.target);
  if (flags.json) return printJson(schedule);
  const next = toMoment(toShort(nextAt), Date.now());
  if (!paused) return print(`Schedule ${id} is resumed${next && `. Next: ${next}`}`);
  print(`Schedule ${id} is paused`);
  printNote(`resume it with: npx agentserve schedules resume ${id}${client.target.flag}`);
}

const open = (flags: SchedulesFlags): Client => new Client(toTarget(flags), printNote);

/** Sends a command about a schedule. Another text than an id could lead to another route. */
async function send(client: Client, id: string, action: string): Promise<unknown> {
  if (!isId(id)) throw new UsageError("<id>: expected the id of a schedule");
  try {
    return await interruptible((signal) => client.post(`/schedules/${encodeURIComponent(id)}/${action}`, { signal }));
  } catch (error) {
    throw await withKnownIds(error, client, "schedules", id);
  }
}

const toWord = (id: unknown): string => toShellWord(toShortId(id));
