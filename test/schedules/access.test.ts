import { defineSchedule, defineWorkflow, type Authorize, type AuthorizeRequest, type Config } from "agentserve";
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
  const each = { every: "1s", workflow: expense, input: { amount: 7 } } as const;
  const schedules = [
    defineSchedule({ id: "all", ...each }),
    defineSchedule({ id: "own", ...each, user: { id: "ada" } }),
  ];
  const { get } = await start({ workflows: [expense], schedules, auth: { ...trusting, ownership: true } });
  const list = async (user: string): Promise<string[]> =>
    (await get("/executions", by(user))).body.data.items.map(({ executionId }: { executionId: string }) => executionId);
  await expect.poll(() => list("ada")).not.toEqual([]);
  expect((await list("ada")).filter((id) => !id.startsWith("schedule:own:2"))).toEqual([]);
  expect(await list("bob")).toEqual([]);
});

it.each([
  ["a provider", { auth: trusting }],
  ["ownership", { auth: { ...trusting, ownership: true } }],
])("refuses to trigger, pause and resume schedules without authorize under %s", async (_, config) => {
  const { post, get } = await start({ workflows: [expense], schedules: [nightly], ...config });
  for (const command of ["trigger", "pause", "resume"]) {
    const { status, body } = await post(`/schedules/nightly/${command}`, undefined, manager);
    expect([status, body.error]).toEqual([403, "Forbidden: schedule commands need authorize, see docs/auth.md"]);
    expect((await post(`/schedules/unknown/${command}`, undefined, manager)).status).toBe(404);
  }
  expect((await get("/schedules", manager)).body.data).toMatchObject([{ id: "nightly", paused: false }]);
  expect((await get("/executions?userId=schedule:nightly", by("ada"))).body.data?.items ?? []).toEqual([]);
});

it("lets the authorize of a workflow decide about its schedules", async () => {
  const authorize: Authorize = ({ user }) => user?.["role"] === "manager";
  const report = defineWorkflow({ id: "report", authorize }).andThen({ id: "write", execute: () => 1 });
  const weekly = defineSchedule({ id: "weekly", cron: "0 3 * * 1", workflow: report, input: {} });
  const { post } = await start({ workflows: [expense, report], schedules: [nightly, weekly], auth: trusting });
  const trigger = async (id: string, user: typeof manager) =>
    (await post(`/schedules/${id}/trigger`, undefined, user)).status;
  expect([await trigger("weekly", manager), await trigger("weekly", by("ada"))]).toEqual([202, 403]);
  expect(await trigger("nightly", manager)).toBe(403);
});
