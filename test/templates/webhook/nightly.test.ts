import { join } from "node:path";
import { embedded } from "agentserve";
import type { TestServer } from "agentserve/testing";
import { describe, expect, it } from "vitest";
import { createProject } from "../../harness/project.ts";
import { eventually } from "../../harness/waiting.ts";
import { ada, as, deliver, grace, open, toBody } from "./shop.ts";

describe("the nightly report of the template webhook, on a clock that the test moves", () => {
  const reportsOf = async (server: TestServer) =>
    (await server.runtime.executions.list({ workflowId: "report" })).items.map(({ executionId, status, result }) => ({
      executionId,
      status,
      result,
    }));

  it("the nightly report counts the orders of each day in Berlin, in the night after it", async () => {
    const { server, clock } = await open("2026-01-15T22:30:00Z"); // 23:30 in Berlin
    await deliver(server, {});
    await deliver(server, { body: toBody("d-2", 10) });
    await clock.advance("1h");
    await deliver(server, { body: toBody("d-3", 10) }); // 0:30 of the next day
    await clock.advance("2h");
    expect(await reportsOf(server)).toEqual([]);
    await clock.advance("30m");
    const first = {
      executionId: "schedule:nightly:2026-01-16T02:00:00.000Z",
      status: "completed",
      result: { day: "2026-01-15", orders: 2, waiting: 1, failed: 0 },
    };
    await eventually(async () => expect(await reportsOf(server)).toEqual([first]));
    await clock.advance("1d");
    const second = {
      executionId: "schedule:nightly:2026-01-17T02:00:00.000Z",
      status: "completed",
      result: { day: "2026-01-16", orders: 1, waiting: 0, failed: 0 },
    };
    await eventually(async () => expect(await reportsOf(server)).toEqual([second, first]));
  });

  it("the nightly report counts an order once when clocks change", async () => {
    const { server, clock } = await open("2026-10-24T10:00:00Z");
    for (let hour = 0; hour < 72; hour++) {
      await deliver(server, { body: toBody(`d-${hour}`, 10) });
      await clock.advance("1h");
    }
    await eventually(async () =>
      expect((await reportsOf(server)).map(({ result }) => result)).toMatchObject([
        { day: "2026-10-26", orders: 24 },
        { day: "2026-10-25", orders: 25 },
        { day: "2026-10-24", orders: 12 },
      ]),
    );
  });

  it.each([
    ["is made up for", "2026-01-16T13:59:00Z", 1],
    ["is not made up for 12 hours later", "2026-01-16T14:01:00Z", 0],
  ])("the nightly report %s if the server was down", async (_, later, count) => {
    const more = { backend: embedded({ path: join(createProject({}), "data.db") }) };
    const before = await open("2026-01-15T18:00:00Z", more);
    await deliver(before.server, {});
    await before.clock.advance("1h");
    await before.server.close();
    const { server, clock } = await open(later, more);
    await server.runtime.executions.list();
    await clock.advance("1m");
    const result = { day: "2026-01-15", orders: 1, waiting: 1, failed: 0 };
    const executionId = "schedule:nightly:2026-01-16T02:00:00.000Z";
    const all = [{ executionId, status: "completed", result }];
    await eventually(async () => expect(await reportsOf(server)).toEqual(all.slice(0, count)));
  });

  it("the nightly report is visible to a manager, who can start it by hand", async () => {
    const { server } = await open("2026-01-15T18:00:00Z");
    await deliver(server, { body: toBody("d-1", 10) });
    expect(await as(server, grace, "/schedules")).toMatchObject([
      200,
      { data: [{ id: "nightly", timezone: "Europe/Berlin", nextAt: "2026-01-16T02:00:00.000Z" }] },
    ]);
    expect(await as(server, ada, "/schedules")).toMatchObject([200, { data: [] }]);
    expect((await as(server, ada, "/schedules/nightly/trigger", {}))[0]).toBe(403);
    const [status, { data }] = await as(server, grace, "/schedules/nightly/trigger", {});
    expect(status).toBe(202);
    const state = `/workflows/report/executions/${data.executionId}/state`;
    await eventually(async () =>
      expect(await as(server, grace, state)).toMatchObject([
        200,
        { data: { status: "completed", result: { day: "2026-01-15", orders: 1 } } },
      ]),
    );
    for (const stranger of [ada, {}]) expect((await as(server, stranger, state))[0]).toBe(404);
  });
});
