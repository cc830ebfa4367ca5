import { attempt } from "../core/attempt.ts";
import type { Caller } from "../core/caller.ts";
import { isId } from "../core/id.ts";
import { isObject } from "../core/json.ts";
import { quote } from "../core/cut.ts";
import type { WorkflowReference } from "../engine/definition/reference.ts";
import type { RuntimeUser, StartOf, WorkflowId } from "../engine/runtime.ts";
import { toMs, type Duration } from "../engine/definition/until.ts";
import { isUserId, toCaller } from "../auth/user.ts";
import { cronTimes, everyTimes, type Times } from "./times.ts";
import { toZone } from "./zone.ts";

/** The options of `defineSchedule()`: either `cron` or `every`. */
export type DefineScheduleOptions<Named, Start> = ScheduleOptions<Named> & ScheduleTimes & ScheduleInput<Start>;

export interface ScheduleOptions<Named> {
  /** The unique id of the schedule: at most 80 characters, no colon. It is part of its execution ids. */
  id: string;
  /** The workflow to start, or its id. */
  workflow: Named;
  /** The user to whom the executions belong. @default { id: "schedule:<id>" } */
  user?: RuntimeUser;
  /**
   * The treatment of a tick while another execution of this schedule is running or suspended: skip the tick, start it as well,
   * or start it later. At most one tick waits; later ones are skipped. @default "skip"
   */
  overlap?: "skip" | "allow" | "queue";
  /**
   * Max age of missed ticks that are run after a downtime, for example `"12h"`. They run one after the other, at most the
   * latest 100. `dev` runs none. @default false
   */
  catchUp?: Duration | false;
}
export type ScheduleTimes =
  | {
      /** A cron pattern of five fields, or of six with seconds first: `"0 3 * * *"` is 3:00 each day. */
      cron: string;
      /** The time zone of `cron`, such as `"Europe/Berlin"`. @default "UTC" */
      timezone?: string;
      every?: never;
    }
  | {
      /** An interval from 1 second on, such as `"15m"`. It counts from 1970 in UTC, so `"1h"` is each full hour. */
      every: Duration;
      cron?: never;
      timezone?: never;
    };
/** The input of each execution. It may be left out if the workflow needs none. */
export type ScheduleInput<Start> = {} extends Start ? { input?: InputOfTick<Start> } : { input: InputOfTick<Start> };
type InputOfTick<Start> = Start | ((tick: ScheduleTick) => Start | Promise<Start>);

/** The moment for which an execution is started. */
export interface ScheduleTick {
  /** The time of the tick. Of an execution that is triggered by hand, the present time. */
  readonly at: Date;
}

/** A schedule that was created by `defineSchedule()`. */
export interface ScheduleDefinition {
  readonly type: "schedule";
  readonly id: string;
  readonly workflowId: string;
  readonly cron?: string | undefined;
  readonly every?: Duration | undefined;
  readonly timezone: string;
  /** Returns the execution input of a tick. */
  readonly toInput: (tick: ScheduleTick) => unknown;
  /** The user to whom the executions belong. */
  readonly caller: Caller;
  readonly overlap: "skip" | "allow" | "queue";
  /** The time for which missed ticks are made up. */
  readonly catchUpMs: number;
  readonly times: Times;
}

/** Defines a schedule: it starts a workflow at fixed times. */
export function defineSchedule<Start, Result>(
  options: DefineScheduleOptions<WorkflowReference<Start, Result>, Start>,
): ScheduleDefinition;
export function defineSchedule<Id extends WorkflowId>(
  options: DefineScheduleOptions<Id, StartOf<Id>>,
): ScheduleDefinition;
export function defineSchedule(
  options: ScheduleOptions<WorkflowReference<never, unknown> | string> & ScheduleTimes & { input?: unknown },
): ScheduleDefinition {
  if (!isObject(options)) throw new TypeError(`defineSchedule(): expected an object, found ${quote(options)}`);
  const { id, workflow, cron, every, timezone = "UTC", overlap = "skip", catchUp = false, input = {} } = options;
  if (!isScheduleId(id)) throw new TypeError(`defineSchedule({ id }): expected ${scheduleIdRule}, found ${quote(id)}`);
  const what = (key: string): string => `Schedule ${id}: ${key}`;
  const invalid = (key: string, expected: string, found: unknown): TypeError =>
    new TypeError(`${what(key)}: expected ${expected}, found ${quote(found)}`);
  const unknown = Object.keys(options).find((key) => !known.has(key));
  if (unknown !== undefined) throw new TypeError(`${what(unknown)}: unknown option`);
  const workflowId: unknown = typeof workflow === "string" ? workflow : (workflow as { id?: unknown } | undefined)?.id;
  if (!isId(workflowId)) throw invalid("workflow", "a workflow or its id", workflow);
  if ((cron === undefined) === (every === undefined))
    throw new TypeError(`${what("cron")}: expected either cron or every`);
  if (cron !== undefined && typeof cron !== "string") throw invalid("cron", 'a pattern such as "0 3 * * *"', cron);
  if (!isZone(timezone)) throw invalid("timezone", 'a time zone such as "Europe/Berlin"', timezone);
  if (!overlaps.has(overlap)) throw invalid("overlap", '"skip", "allow" or "queue"', overlap);
  const user = options.user ?? { id: `schedule:${id}` };
  if (!isObject(user) || !isUserId(user.id)) throw invalid("user", "a user with an id", user);
  const caller = attempt(() => toCaller(user));
  if (!caller) throw invalid("user", "plain JSON", user);
  if (every !== undefined && options.timezone !== undefined)
    throw new TypeError(`${what("timezone")}: every counts in UTC`);
  return {
    type: "schedule",
    id,
    workflowId,
    ...(cron === undefined ? { every } : { cron }),
    timezone,
    toInput: typeof input === "function" ? (input as (tick: ScheduleTick) => unknown) : () => input,
    caller,
    overlap,
    catchUpMs: catchUp === false ? 0 : toMs(catchUp, what("catchUp")),
    times: cron === undefined ? everyTimes(every!, what("every")) : cronTimes(cron, timezone, what("cron")),
  };
}

/** Without a colon: the execution ids of `a` must not look like the ids of `a:b`. */
const isScheduleId = (id: unknown): id is string => isId(id) && id.length <= 80 && !id.includes(":");
const scheduleIdRule = "1 to 80 characters (A-Z a-z 0-9 . _ -), starting with a letter or digit";
const overlaps = new Set<unknown>(["skip", "allow", "queue"]);
const known = new Set(["id", "workflow", "cron", "every", "timezone", "user", "overlap", "catchUp", "input"]);

function isZone(name: unknown): name is string {
  try {
    return typeof name === "string" && toZone(name) !== undefined;
  } catch {
    return false; // a RangeError: there is no such zone
  }
}

export function isSchedule(value: unknown): value is ScheduleDefinition {
  // Not `instanceof`: a project may hold a second copy of this package.
  return isObject(value) && value["type"] === "schedule" && "times" in value;
}
