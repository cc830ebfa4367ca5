import { defineWorkflow, embedded } from "agentserve";
import { createClock } from "agentserve/testing";
import { expect, it } from "vitest";
import { newFile, serve } from "./serve.ts";

const ask = (id: string, timeout?: string) =>
  defineWorkflow({ id }).andThen({
    id: "ask",
    execute: ({ suspend, timedOut }) => (timedOut ? "late" : suspend("Ok?", undefined, timeout ? { timeout } : {})),
  });
const endless = [ask("asks"), defineWorkflow({ id: "waits" }).andWaitFor({ id: "w", event: "go" })];
const timed = [
  defineWorkflow({ id: "sleeps" }).andSleep({ id: "nap", duration: "30d" }),
  defineWorkflow({ id: "until" }).andSleepUntil({ id: "nap", date: "2030-01-31T00:00:00.000Z" }),
  ask("asks-until", "30d"),
  defineWorkflow({ id: "waits-until" }).andWaitFor({ id: "w", event: "go", timeout: "30d" }),
];
const workflows = [...endless, ...timed];
const statuses = (server: ReturnType<typeof serve>) =>
  Promise.all(
    workflows.map(async ({ id }) => {
      const { body } = await server.get(`/workflows/${id}/executions/${id}/state`);
      return [id, body.data?.status];
    }),
  );

it("removes executions that wait for a person or an event by retention.suspended, and none that continue by themselves or have ended", async () => {
  const file = newFile();
  const backend = embedded({ path: file, retention: { executions: false, suspended: "1d" } });
  const first = serve({ workflows, backend });
  for (const { id } of workflows) await first.begin(id);
  await first.clock.advance("23h");
  expect(await statuses(first)).toEqual(workflows.map(({ id }) => [id, "suspended"]));
  await first.clock.advance("2h");
  const afterOneDay = [...endless.map(({ id }) => [id, undefined]), ...timed.map(({ id }) => [id, "suspended"])];
  expect(await statuses(first)).toEqual(afterOneDay);
  await first.close();

  // Their time comes while there is no process.
  const now = first.clock.now() + 40 * 24 * 3_600_000;
  const second = serve({ workflows, backend }, { clock: createClock({ now }) });
  await second.get("/workflows");
  await second.clock.advance("1m");
  const afterAll = [...endless.map(({ id }) => [id, undefined]), ...timed.map(({ id }) => [id, "completed"])];
  expect(await statuses(second)).toEqual(afterAll);
  await second.clock.jump("400d");
  await second.clock.advance("2h");
  expect(await statuses(second), "executions: false").toEqual(afterAll);
});
