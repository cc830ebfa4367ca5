import { defineSchedule, defineWorkflow } from "agentserve";
import { createClock, createServer } from "agentserve/testing";
import { expect, it, onTestFinished } from "vitest";
import { cronTimes } from "../../src/schedules/times.ts";

const work = defineWorkflow({ id: "work" }).andThen({ id: "s", execute: () => 1 });

it.each([
  ["at an hour", "0 3 * * *", "2026-01-16T03:00:00.000Z"],
  ["each hour", "0 * * * *", "2026-01-16T03:00:00.000Z"],
  ["at a second", "30 0 3 * * *", "2026-01-16T03:00:30.000Z"],
])("starts the execution of a cron %s at the moment of the tick", async (_, cron, at) => {
  const clock = createClock({ now: "2026-01-16T02:30:00Z" });
  const schedules = [defineSchedule({ id: "tick", cron, workflow: work })];
  const server = createServer({ workflows: [work], schedules }, { clock });
  onTestFinished(() => server.close());
  const list = async () => (await server.runtime.executions.list()).items;
  expect(await list()).toEqual([]);
  await clock.advance(Date.parse(at) - clock.now() - 1);
  expect(await list()).toEqual([]);
  await clock.advance(1);
  expect(await list()).toMatchObject([{ executionId: `schedule:tick:${at}`, startAt: at }]);
  await clock.advance("30m");
  expect(await list()).toHaveLength(1);
});

it.each(["0 3 * * *", "0 * * * *"])("includes the second that has begun in the last times of %s", (cron) => {
  const at = Date.parse("2026-01-16T03:00:00Z");
  const { last } = cronTimes(cron, "UTC", "cron");
  for (const late of [0, 1, 999, 1_000]) expect(last(1, at - 1, at + late)).toEqual([at]);
  expect(last(1, at - 1, at - 1)).toEqual([]);
  expect(last(1, at, at + 999)).toEqual([]);
});
