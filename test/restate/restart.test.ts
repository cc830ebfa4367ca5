import { expect, it } from "vitest";
import { defineWorkflow } from "agentserve";
import { gates, timesRan, workflows as all } from "../workflows/fixtures.ts";
import { patienceMs as timeout } from "../harness/patience.ts";
import { freePort } from "./restate-server.ts";
import { createPlace } from "./waiting-server.ts";

const workflows = all.filter(({ id }) => id === "gated");

it("a restarted replica continues an execution without its recorded steps", { timeout }, async () => {
  const place = await createPlace();
  const first = await place.start(workflows);
  await first.begin("rs1");
  await gates.reached("rs1");
  const second = await place.start(workflows);
  await expect.poll(() => timesRan("rs1", "second"), { timeout }).toBe(2);
  gates.open("rs1");
  await second.reach("rs1", "completed");
  expect([timesRan("rs1", "first"), timesRan("rs1", "third")]).toEqual([1, 1]);
  const { events } = await second.server.get("/workflows/gated/executions/rs1/stream");
  expect(events.slice(0, -1).map(({ seq }) => seq)).toEqual(events.slice(0, -1).map((_, index) => index + 1));
});

it('recovery: "fail" ends an execution that a restart of the replica has interrupted', { timeout }, async () => {
  const hung = Promise.withResolvers<void>();
  const hanging = defineWorkflow({ id: "hanging", recovery: "fail" }).andThen({
    id: "hangs",
    execute: () => (hung.resolve(), new Promise(() => {})),
  });
  const place = await createPlace();
  const first = await place.start([hanging]);
  await first.begin("rs2");
  await hung.promise;
  const second = await place.start([hanging]);
  await second.reach("rs2", "error");
  expect(await second.state("rs2")).toMatchObject({ error: "Interrupted by a restart" });
});

it("retention removes an execution that has ended", { timeout }, async () => {
  const place = await createPlace({ retention: "1s" });
  const { server, state } = await place.start(workflows);
  gates.open("rs3");
  const ended = await server.post("/workflows/gated/execute", { input: {}, options: { executionId: "rs3" } });
  expect(ended.body.data).toMatchObject({ status: "completed" });
  await expect.poll(() => state("rs3"), { timeout }).toBeUndefined();
  expect((await server.get("/workflows/gated/executions")).body.data).toMatchObject({ items: [] });
});

it("retention removes an execution that was cancelled while it ran", { timeout }, async () => {
  const place = await createPlace({ retention: "1s" });
  const { server, begin, state } = await place.start(workflows);
  await begin("rs5");
  await gates.reached("rs5");
  expect((await server.post("/workflows/gated/executions/rs5/cancel", {})).status).toBe(200);
  await expect.poll(() => state("rs5"), { timeout }).toBeUndefined();
});

it("retention.suspended removes what waits for a person, and no sleeper", { timeout }, async () => {
  const place = await createPlace({ retention: { suspended: "1s" } });
  const asks = defineWorkflow({ id: "asks" }).andThen({ id: "ask", execute: ({ suspend }) => suspend("Ok?") });
  const sleeps = defineWorkflow({ id: "sleeps" }).andSleep({ id: "nap", duration: "4s" });
  const { begin, reach, state } = await place.start([asks, sleeps], { inlineSleepMs: 100 });
  await begin("rs6-sleeps", {}, "sleeps");
  await begin("rs6-asks");
  await expect.poll(() => state("rs6-asks"), { timeout }).toBeUndefined();
  expect(["suspended", "completed"]).toContain((await state("rs6-sleeps", "sleeps")).status);
  await reach("rs6-sleeps", "completed", "sleeps");
});

it("a replica starts without Restate and answers 503", { timeout }, async () => {
  const dead = `http://127.0.0.1:${await freePort()}`;
  const place = await createPlace({ ingress: dead, admin: dead });
  const { server, begin } = await place.start(workflows);
  const answer = await begin("rs4");
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
  expect((await server.send("/workflows", {})).status).toBe(200);
});
