import * as v from "valibot";
import { admit, type ActionRequest } from "../core/access/authorizer.ts";
import { cut } from "../core/cut.ts";
import { notFound } from "../core/error.ts";
import { toIso } from "../core/iso-time.ts";
import type { Engine } from "../engine/contract/engine.ts";
import type { ScheduleChange, ScheduleStore, StoredSchedule } from "../engine/contract/schedules.ts";
import { defineRoute, type Route } from "../http/route.ts";
import { cannotRead, cannotStart, cannotWrite } from "../workflows/routes/errors.ts";
import { StartedShape, toStartedReply } from "../workflows/routes/replies.ts";
import type { ScheduleDefinition } from "./define.ts";
import { lateMs } from "./entry.ts";
import { RefusedStart, startExecution, toPrefix, type Schedules } from "./start.ts";

export interface ScheduleRoutesOptions {
  readonly engine: Engine;
  readonly store: ScheduleStore;
}

const Time = v.pipe(v.string(), v.isoTimestamp());
const ScheduleShape = v.pipe(
  v.object({
    id: v.string(),
    workflowId: v.string(),
    cron: v.optional(v.string()),
    every: v.optional(v.union([v.string(), v.number()])),
    timezone: v.string(),
    paused: v.boolean(),
    lastAt: v.optional(Time),
    nextAt: v.optional(Time),
  }),
  v.title("Schedule"),
);

/** The routes about schedules. */
export function scheduleRoutes({ engine, store }: ScheduleRoutesOptions): readonly Route<Schedules>[] {
  const unknownSchedule = { 404: "Schedule not found" };
  return [
    defineRoute({
      method: "GET",
      path: "/schedules",
      summary: "List schedules",
      description:
        "`lastAt` is the last time that came, also if it was left out. A schedule that is paused has no `nextAt`. With `authorize`, only those that the caller may read.",
      access: "protected",
      action: "schedule.read",
      yields: true,
      responses: { 200: v.array(ScheduleShape) },
      errors: cannotRead,
      async handle(request) {
        const stored = new Map((await store.all()).map((one) => [one.id, one]));
        const views: v.InferOutput<typeof ScheduleShape>[] = [];
        for (const schedule of request.snapshot.schedules.values())
          if (await isReadable(request, schedule)) views.push(toView(schedule, stored.get(schedule.id), now()));
        return views;
      },
    }),
    defineRoute({
      method: "POST",
      path: "/schedules/:id/trigger",
      summary: "Start an execution of a schedule now",
      description:
        "The execution belongs to the user of the schedule. It starts whether the schedule is paused or not, and whether another execution of it runs or not.",
      access: "protected",
      action: "schedule.trigger",
      yields: true,
      responses: { 202: StartedShape },
      errors: { ...unknownSchedule, ...cannotStart },
      find: findSchedule,
      async handle({ found: schedule, snapshot }) {
        const executionId = `${toPrefix(schedule.id)}manual-${crypto.randomUUID()}`;
        await startExecution(engine, snapshot, schedule, { executionId, at: now() }).catch((error: unknown) => {
          throw error instanceof RefusedStart ? error.cause : error;
        });
        return toStartedReply(executionId);
      },
    }),
    changeRoute("pause", {
      summary: "Pause a schedule",
      description: "It starts no execution until it is resumed, also after a restart or a change of the config.",
      toChange: () => ({ isPaused: true }),
    }),
    changeRoute("resume", {
      summary: "Resume a paused schedule",
      description: "The time for which it was paused is not made up.",
      toChange: (stored) => (stored?.isPaused ? { isPaused: false, doneAt: now(), missed: [], dropsHeld: true } : {}),
    }),
  ];

  function changeRoute(
    verb: "pause" | "resume",
    { toChange, ...texts }: { summary: string; description: string; toChange: ToChange },
  ): Route<Schedules> {
    return defineRoute({
      method: "POST",
      path: `/schedules/:id/${verb}`,
      ...texts,
      access: "protected",
      action: "schedule.pause",
      yields: true,
      responses: { 200: ScheduleShape },
      errors: { ...unknownSchedule, ...cannotWrite },
      find: findSchedule,
      async handle({ found: schedule }) {
        const stored = await store.change(schedule.id, toChange(await store.find(schedule.id)));
        return toView(schedule, stored, now());
      },
    });
  }

  function now(): number {
    return engine.clock.now();
  }
}

type ToChange = (stored: StoredSchedule | undefined) => ScheduleChange;

interface ScheduleRequest extends ActionRequest {
  readonly params: { readonly id: string };
  readonly snapshot: Schedules;
}

/** Returns a schedule if the caller may do the action of the route to it. Throws or rejects with 403 otherwise. */
function findSchedule(request: ScheduleRequest): ScheduleDefinition | Promise<ScheduleDefinition> {
  const schedule = request.snapshot.schedules.get(request.params.id);
  if (!schedule) throw notFound(`Schedule ${cut(request.params.id)} not found`);
  return admit(request, schedule, toQuestion(schedule));
}

async function isReadable(
  { action, identity, snapshot }: ActionRequest,
  schedule: ScheduleDefinition,
): Promise<boolean> {
  const allowed = snapshot.authorizer?.ask({ action, user: identity.caller?.user, ...toQuestion(schedule) });
  return (await allowed) ?? true;
}

const toQuestion = ({ id, workflowId }: ScheduleDefinition) => ({ scheduleId: id, workflowId });

function toView(
  { id, workflowId, cron, every, timezone, times }: ScheduleDefinition,
  { isPaused = false, lastAt, doneAt = 0 }: Partial<StoredSchedule> = {},
  now: number,
): v.InferOutput<typeof ScheduleShape> {
  // A time far ahead comes from a wrong clock.
  const after = doneAt > now + lateMs ? now : Math.max(now, doneAt);
  const nextAt = isPaused ? undefined : times.next(after);
  return {
    id,
    workflowId,
    ...(cron === undefined ? { every } : { cron }),
    timezone,
    paused: isPaused,
    ...(lastAt !== undefined && { lastAt: toIso(lastAt) }),
    ...(nextAt !== undefined && { nextAt: toIso(nextAt) }),
  };
}
