// Schedules on a clock that the test moves, over restarts, saves and a store that fails: a model says which ticks begin.
import { join } from "node:path";
import { defineSchedule, defineWorkflow, embedded, type ScheduleDefinition } from "agentserve";
import { createClock } from "agentserve/testing";
import fc from "fast-check";
import { expect, it } from "vitest";
import { toProject } from "../../src/config/load.ts";
import type { Backend } from "../../src/engine/contract/backend.ts";
import { openServer, type OpenServer } from "../../src/server/create.ts";
import { createSharedFolder } from "../harness/folders.ts";
import { createTestLogger } from "../harness/server.ts";
import { bySize } from "../harness/size.ts";

const folder = createSharedFolder("ticks");

const minute = 60_000;
const hour = 60 * minute;
/** The times of a schedule: those of the config, and the text of a duration. */
const times = [
  { every: "7s" },
  { every: "1m" },
  { every: "90m" },
  { cron: "*/5 * * * *", timezone: "Europe/Berlin" },
  { cron: "30 2 * * *", timezone: "Europe/Berlin" },
  { cron: "10,40 1-4 * * *", timezone: "America/New_York" },
  { cron: "0 12 * * 1" },
] as const;

/** A schedule as a save leaves it. It is in the config while `times` is a number. */
const one = fc.record({
  times: fc.option(fc.nat({ max: times.length - 1 }), { freq: 6, nil: undefined }),
  catchUp: fc.constantFrom(false as const, "1m", "1h", "3d"),
});
type One = typeof one extends fc.Arbitrary<infer T> ? T : never;
const ids = ["a", "b", "c", "d"];
const saved = fc.tuple(one, one, one, one);
/** A time that leads over few or many ticks. */
const duration = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 30_000 }) },
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 5 * minute }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 3 * hour }) },
);
const deed = fc.oneof(
  { weight: 2, arbitrary: fc.record({ what: fc.constant("wait" as const), ms: duration }) },
  { weight: 3, arbitrary: fc.record({ what: fc.constant("restart" as const), ms: duration }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant("deploy" as const), ms: duration, next: saved }) },
  { weight: 4, arbitrary: fc.record({ what: fc.constant("save" as const), next: saved }) },
  // Executions begin, but their ticks are not stored: as after a crash between the two.
  { weight: 1, arbitrary: fc.record({ what: fc.constant("crash" as const), ms: fc.integer({ min: 1, max: minute }) }) },
);
const plan = fc.record({
  start: fc.constantFrom("2026-03-28T22:00:00Z", "2026-10-24T20:00:00Z", "2026-07-01T00:00:00Z"),
  first: saved,
  deeds: fc.array(deed, { minLength: 40, maxLength: 80, size: "max" }),
});
type Plan = typeof plan extends fc.Arbitrary<infer T> ? T : never;

/** The executions that have begun, in order. */
let began: string[] = [];
const note = defineWorkflow({ id: "note" }).andThen({
  id: "note",
  execute: ({ executionId }) => void began.push(executionId),
});

const toSchedules = (next: readonly One[]): ScheduleDefinition[] =>
  next.flatMap(({ times: number, catchUp }, index) =>
    number === undefined
      ? []
      : [defineSchedule({ id: ids[index]!, workflow: note, overlap: "allow", catchUp, ...times[number]! })],
  );

/** A backend that can lose what is written of schedules. */
function losing(path: string): Backend & { isLosing: boolean } {
  const own = embedded({ path, retention: false });
  const backend = {
    ...own,
    isLosing: false,
    open(parts: Parameters<Backend["open"]>[0]) {
      const opened = own.open(parts);
      const { schedules } = opened;
      const change: typeof schedules.change = (id, fields) =>
        backend.isLosing ? Promise.reject(new Error("lost")) : schedules.change(id, fields);
      return { ...opened, schedules: { all: () => schedules.all(), find: (id: string) => schedules.find(id), change } };
    },
  };
  return backend;
}

const toExecutionId = (id: string, at: number): string => `schedule:${id}:${new Date(at).toISOString()}`;

/** Says which ticks begin, from the rules alone. */
class Model {
  readonly ticks = new Set<string>();
  /** What is stored: the times, and the time up to which ticks are done. */
  readonly #stored = new Map<string, { key: string; doneAt: number }>();
  /** The schedules of the config. */
  #served = new Map<string, ScheduleDefinition>();

  /** A server starts with these schedules. */
  boot(schedules: readonly ScheduleDefinition[], now: number): void {
    this.#served = new Map(schedules.map((schedule) => [schedule.id, schedule]));
    for (const schedule of schedules) {
      const stored = this.#stored.get(schedule.id);
      if (stored?.key === schedule.times.key)
        this.#begin(schedule, Math.max(stored.doneAt, now - schedule.catchUpMs), now, 100);
      else this.#stored.set(schedule.id, { key: schedule.times.key, doneAt: now });
    }
    this.#forget();
  }

  /** The config is saved. */
  save(schedules: readonly ScheduleDefinition[], now: number): void {
    const before = this.#served;
    this.#served = new Map(schedules.map((schedule) => [schedule.id, schedule]));
    for (const { id, times: own } of schedules)
      if (before.get(id)?.times.key !== own.key) this.#stored.set(id, { key: own.key, doneAt: now });
    this.#forget();
  }

  /** Time passes while the server runs. */
  pass(from: number, to: number): void {
    for (const schedule of this.#served.values())
      this.#begin(schedule, Math.max(from, this.#stored.get(schedule.id)!.doneAt), to, Infinity);
  }

  /** Time passes while nothing is stored: each schedule is stuck at its first tick. */
  passUnstored(from: number, to: number): void {
    for (const { id, times: own } of this.#served.values()) {
      const at = own.next(Math.max(from, this.#stored.get(id)!.doneAt));
      if (at !== undefined && at <= to) this.ticks.add(toExecutionId(id, at));
    }
  }

  #begin({ id, times: own }: ScheduleDefinition, since: number, until: number, most: number): void {
    const found: number[] = [];
    for (let at = own.next(since); at !== undefined && at <= until; at = own.next(at)) found.push(at);
    for (const at of found.slice(-most)) this.ticks.add(toExecutionId(id, at));
    const last = found.at(-1);
    if (last !== undefined) this.#stored.get(id)!.doneAt = Math.max(last, this.#stored.get(id)!.doneAt);
  }

  #forget(): void {
    for (const [id, stored] of this.#stored) if (!this.#served.has(id)) stored.key = "";
  }
}

const counts = { ticks: 0, restarts: 0, saves: 0, crashes: 0 };
let files = 0;

async function play({ start, first, deeds }: Plan): Promise<void> {
  const file = join(folder, `${files++}.db`);
  const clock = createClock({ now: start });
  const backend = losing(file);
  const model = new Model();
  began = [];
  let server: OpenServer;
  let schedules = toSchedules(first);
  const toConfig = () => toProject({ workflows: [note], schedules, backend });
  const boot = async (): Promise<void> => {
    backend.isLosing = false;
    model.boot(schedules, clock.now());
    server = openServer(toConfig(), { mode: "start", logger: createTestLogger([]), clock });
    await server.fetch(new Request("http://localhost/doc"));
    await clock.advance(0);
  };
  const pass = async (ms: number): Promise<void> => {
    model.pass(clock.now(), clock.now() + ms);
    await clock.advance(ms);
  };
  await boot();
  for (const step of deeds) {
    if (step.what === "wait") await pass(step.ms);
    else if (step.what === "save") {
      schedules = toSchedules(step.next);
      model.save(schedules, clock.now());
      server!.swap(toConfig());
      await clock.advance(0);
      counts.saves++;
    } else {
      if (step.what === "crash") {
        backend.isLosing = true;
        model.passUnstored(clock.now(), clock.now() + step.ms);
      } else await server!.close();
      await clock.advance(step.ms);
      await server!.close();
      if (step.what === "deploy") schedules = toSchedules(step.next);
      counts[step.what === "crash" ? "crashes" : "restarts"]++;
      await boot();
    }
  }
  await pass(minute);
  await server!.close();
  counts.ticks += model.ticks.size;
  expect(began.toSorted()).toEqual([...model.ticks].toSorted());
}

it(
  "each due tick begins once, over restarts, saves and crashes; missed ones by catchUp; none twice",
  { timeout: 1_800_000 },
  async () => {
    await fc.assert(fc.asyncProperty(plan, play), { numRuns: bySize(3, 32), endOnFailure: true });
    console.log(counts);
    expect(counts.ticks).toBeGreaterThan(bySize(200, 10_000));
    expect(Math.min(counts.restarts, counts.saves)).toBeGreaterThan(bySize(10, 500));
  },
);
