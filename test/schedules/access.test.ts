import { defineSchedule, type Authorize, type AuthorizeRequest, type Config } from "agentserve";
import { expect, it } from "vitest";
import { by, expense, trusting } from "../auth/authorize/world.ts";
import { startTestServer } from "../harness/server.ts";

const nightly = defineSchedule({ id: "nightly", cron: "0 3 1 1 *", workflow: expense, input: { amount: 7 } });
const start = (config: Config) => startTestServer("in process", { config });
const manager = by({ id: "grace", role: "manager" });

it("shows a schedule's executions only to callers whom authorize allows", async () => {
  const asked: AuthorizeRequest[] = [];
  const authorize: Authorize = (request) => {
    asked.push(request);
    if (request.action.startsWith("schedule.")) return request.user?.["role"] === "manager";
    return request.execution?.userId === "schedule:nightly" && request.user?.["role"] === "manager";
  };
  const { post, get } = await start({ workflows: [expense], schedules: [nightly], auth: trusting, authorize });
  expect((await post("/schedules/nightly/trigger", undefined, by("ada"))).status).toBe(403);
  const { body } = await post("/schedules/nightly/trigger", undefined, manager);
  const { executionId } = body.data;
  expect(asked.at(-1)).toEqual({
    action: "schedule.trigger",
    user: { id: "grace", role: "manager" },
    workflowId: "expense",
    scheduleId: "nightly",
  });
  const at = `/workflows/expense/executions/${executionId}`;
  await expect.poll(async () => (await get(`${at}/state`, manager)).body.data?.status).toBe("suspended");
  expect((await get(`${at}/state`, by("ada"))).status).toBe(404);
  expect((await post(`${at}/resume`, { resumeData: { approved: true } }, by("ada"))).status).toBe(404);
  const { body: resumed } = await post(`${at}/resume`, { resumeData: { approved: true } }, manager);
  expect(resumed.data).toMatchObject({ status: "completed", result: { approved: true, by: "grace" } });
  expect((await get("/executions", manager)).body.data.items).toHaveLength(1);
  expect((await get("/executions", by("ada"))).body.data.items).toEqual([]);
  expect((await get("/schedules", by("ada"))).body.data).toEqual([]);
  expect((await get("/schedules", manager)).body.data).toMatchObject([{ id: "nightly", paused: false }]);
});

it("gives a schedule's executions to its user with ownership", async () => {
  const own = defineSchedule({
    id: "own",
    cron: "0 3 1 1 *",
    workflow: expense,
    input: { amount: 7 },
    user: { id: "ada" },
  });
  const auth = { ...trusting, ownership: true };
  const { post, get } = await start({ workflows: [expense], schedules: [nightly, own], auth });
  for (const id of ["nightly", "own"]) await post(`/schedules/${id}/trigger`, undefined, by("bob"));
  const list = async (user: string): Promise<string[]> =>
    (await get("/executions", by(user))).body.data.items.map(({ executionId }: { executionId: string }) => executionId);
  expect(await list("ada")).toEqual([expect.stringMatching(/^schedule:own:manual-/)]);
  expect(await list("bob")).toEqual([]);
});
