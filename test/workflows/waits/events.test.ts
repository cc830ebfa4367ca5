import { andThen, andWaitFor, defineWorkflow } from "agentserve";
import { createClock } from "agentserve/testing";
import { describe, expect, it } from "vitest";
import * as v from "valibot";
import { bySize } from "../../harness/size.ts";
import { after, hour, newFile, query, serve } from "./serve.ts";

const order = defineWorkflow({ id: "order" }).andWaitFor({
  id: "paid",
  event: "paid",
  key: ({ input }) => String(input["order"] ?? ""),
  timeout: "2d",
});

describe("POST /events", () => {
  it("answers an event with 202 and its id, also if it is repeated, and with 409 for another body", async () => {
    const { post } = serve({ workflows: [order] });
    const body = { name: "paid", key: "7", data: { n: 1 }, id: "e1" };
    expect(await post("/events", body)).toEqual({ status: 202, body: { success: true, data: { id: "e1" } } });
    expect(await post("/events", body)).toEqual({ status: 202, body: { success: true, data: { id: "e1" } } });
    for (const other of [{ data: { n: 2 } }, { key: "8" }, { name: "sent" }, { data: undefined }])
      expect(await post("/events", { ...body, ...other })).toEqual({
        status: 409,
        body: { success: false, error: "Event e1 exists with another body" },
      });
    const { body: made } = await post("/events", { name: "paid" });
    expect(made.data).toEqual({ id: expect.stringMatching(/^[\w-]{20,}$/) });
  });

  it.each([
    ["a name that is not an id", { name: "a b" }, 400],
    ["no name", {}, 400],
    ["a key of 257 characters", { name: "n", key: "k".repeat(257) }, 400],
    ["an id that is not one", { name: "n", id: "a b" }, 400],
    ["data over stepValueBytes", { name: "n", data: "x".repeat(2_000) }, 413],
  ])("refuses an event with %s", async (_, body, status) => {
    const { post } = serve({ workflows: [order], server: { limits: { stepValueBytes: 1_000 } } });
    expect((await post("/events", body)).status).toBe(status);
    expect((await post("/events", { name: "n", key: "k".repeat(256), data: "x".repeat(900) })).status).toBe(202);
  });

  it("answers 503 to new events at limits.storedEvents until events expire", async () => {
    const { post, clock } = serve({ workflows: [order], server: { limits: { storedEvents: 6 } } }); // 3 of them for callers
    for (const id of ["a", "b", "c"]) expect((await post("/events", { name: "n", id })).status).toBe(202);
    const full = { success: false, error: "Too many events are stored" };
    expect(await post("/events", { name: "n", id: "d" })).toEqual({ status: 503, body: full });
    expect((await post("/events", { name: "n", id: "a" })).status).toBe(202);
    await clock.advance("25h");
    expect((await post("/events", { name: "n", id: "d" })).status).toBe(202);
    expect((await post("/events", { name: "n", id: "a", key: "other" })).status, "it has expired").toBe(202);
  });
});

describe("andWaitFor", () => {
  it("shows the event, key and deadline of andWaitFor, and continues with the data", async () => {
    const { post, begin, state, clock } = serve({ workflows: [order] });
    await begin("order", "o", { order: 7 });
    await clock.advance(0);
    const { status, suspension } = await state("order", "o");
    expect([status, suspension]).toEqual([
      "suspended",
      {
        suspendedAt: after(0),
        stepIndex: 0,
        stepId: "paid",
        kind: "event",
        reason: "Waiting for event paid",
        event: "paid",
        key: "7",
        deadline: after(48 * hour),
      },
    ]);
    await post("/events", { name: "paid", key: "8", data: "another key" });
    await post("/events", { name: "sent", key: "7", data: "another name" });
    await post("/events", { name: "paid", data: "no key" });
    await clock.advance("1h");
    expect((await state("order", "o")).status).toBe("suspended");
    await post("/events", { name: "paid", key: "7", data: { amount: 3 } });
    await clock.advance(0);
    expect(await state("order", "o")).toMatchObject({ status: "completed", result: { amount: 3 } });
  });

  it("gives null after the time-out of andWaitFor, and takes an event in its last millisecond", async () => {
    const { post, begin, state, clock } = serve({ workflows: [order] });
    await begin("order", "late");
    await begin("order", "last", { order: 1 });
    await clock.advance(48 * hour - 1);
    await post("/events", { name: "paid", key: "1", data: "just in time" });
    await clock.advance(1);
    expect(await state("order", "late")).toMatchObject({ status: "completed", result: null });
    expect(await state("order", "last")).toMatchObject({ status: "completed", result: "just in time" });
  });

  it("takes an event that was sent after the execution began and before the wait, the oldest first, each once", async () => {
    const twice = defineWorkflow({ id: "twice" })
      .andSleep({ id: "nap", duration: "1h" })
      .andWaitFor({ id: "first", event: "tick" })
      .andThen({ id: "keep", execute: ({ data }) => [data] })
      .andWaitFor({ id: "second", event: "tick" })
      .andThen({ id: "both", execute: ({ data, getStepData }) => [getStepData("first"), data] });
    const { post, begin, state, clock } = serve({ workflows: [twice] });
    await post("/events", { name: "tick", data: "older than the execution" });
    await begin("twice");
    await clock.advance("1m");
    await post("/events", { name: "tick", data: 1 });
    await post("/events", { name: "tick", data: 2 });
    await clock.advance("1h");
    expect(await state("twice")).toMatchObject({ status: "completed", result: [1, 2] });
  });

  it('takes older events with since: "always", and none of POST /events with from: "code"', async () => {
    const always = defineWorkflow({ id: "always" }).andWaitFor({ id: "w", event: "tick", since: "always" });
    const code = defineWorkflow({ id: "code" }).andWaitFor({ id: "w", event: "tick", from: "code" });
    const { post, begin, state, clock } = serve({ workflows: [always, code] });
    await post("/events", { name: "tick", data: "old" });
    await begin("always");
    await begin("code");
    await post("/events", { name: "tick", data: "new" });
    await clock.advance("1h");
    expect(await state("always")).toMatchObject({ status: "completed", result: "old" });
    expect((await state("code")).status).toBe("suspended");
  });

  it("ignores an event that the schema of andWaitFor refuses, with one warning", async () => {
    const strict = defineWorkflow({ id: "strict" }).andWaitFor({
      id: "w",
      event: "tick",
      schema: v.object({ n: v.number() }),
    });
    const { post, begin, state, clock, server } = serve({ workflows: [strict] });
    await begin("strict");
    await post("/events", { name: "tick", id: "bad", data: { n: "x" } });
    await clock.advance("1h");
    await post("/events", { name: "tick", id: "bad2", data: 1 });
    await clock.advance("1h");
    expect((await state("strict")).status).toBe("suspended");
    const warnings = server.logs().filter(({ level }) => level === "warn");
    expect(warnings.map(({ data }) => (data as { event: string }).event)).toEqual(["bad", "bad2"]);
    await post("/events", { name: "tick", data: { n: 3 } });
    await clock.advance(0);
    expect(await state("strict")).toMatchObject({ status: "completed", result: { n: 3 } });
  });

  it("gives an event to every waiting execution, and to one branch of each", async () => {
    const pair = defineWorkflow({ id: "pair" }).andAll({
      id: "all",
      steps: [andWaitFor({ id: "a", event: "go" }), andWaitFor({ id: "b", event: "go" })],
    });
    const { post, begin, state, clock } = serve({ workflows: [pair] });
    const ids = Array.from({ length: bySize(100, 1_000) }, (_, index) => `p${index}`);
    for (const id of ids) await begin("pair", id);
    await clock.advance(0);
    await post("/events", { name: "go", data: 1 });
    await clock.advance(hour);
    for (const id of ids) expect((await state("pair", id)).suspension, id).toMatchObject({ stepId: "b" });
    await post("/events", { name: "go", data: 2 });
    await clock.advance(hour);
    for (const id of ids) expect(await state("pair", id), id).toMatchObject({ status: "completed", result: [1, 2] });
  });

  it("takes more waiting events than one read returns", async () => {
    const many = defineWorkflow({ id: "many" })
      .andThen({ id: "zero", execute: () => 0 as unknown })
      .andDoUntil({
        id: "loop",
        step: andWaitFor({ id: "w", event: "tick", since: "always" }),
        condition: ({ data }) => data === 129,
      });
    const { post, begin, state, clock } = serve({ workflows: [many] });
    for (let n = 0; n < 130; n++) await post("/events", { name: "tick", data: n });
    await begin("many");
    await clock.advance("1h");
    expect(await state("many")).toMatchObject({ status: "completed", result: 129 });
  });

  it("gives an event to an execution whose other branch waits for a retry", async () => {
    let isFixed = false;
    const both = defineWorkflow({ id: "both" }).andAll({
      id: "all",
      steps: [
        andWaitFor({ id: "w", event: "go" }),
        andThen({
          id: "pay",
          retry: { attempts: 3, delay: 6 * hour },
          execute: () => {
            if (!isFixed) throw new Error("not yet");
            return "paid";
          },
        }),
      ],
    });
    const { post, begin, get, state, clock } = serve({ workflows: [both] });
    await begin("both");
    await clock.advance("1m");
    await post("/events", { name: "go", data: 1 });
    await clock.advance("1m");
    const { body } = await get("/workflows/both/executions/both/steps");
    expect(JSON.stringify(body.data), "the wait has ended").toContain('"status":"success"');
    isFixed = true;
    await clock.advance("6h");
    expect(await state("both")).toMatchObject({ status: "completed", result: [1, "paid"] });
  });

  it("keeps events over a restart, for waits that begin later", async () => {
    const file = newFile();
    const nap = defineWorkflow({ id: "nap" })
      .andSleep({ id: "s", duration: "1h" })
      .andWaitFor({ id: "w", event: "go" });
    const first = serve({ workflows: [nap] }, { file });
    await first.begin("nap");
    await first.clock.advance("1m");
    await first.post("/events", { name: "go", data: 1 });
    await first.close();
    expect(query(file, "select name from events")).toEqual([{ name: "go" }]);
    const second = serve({ workflows: [nap] }, { file, clock: createClock({ now: first.clock.now() }) });
    await second.get("/workflows");
    await second.clock.advance("1h");
    expect(await second.state("nap")).toMatchObject({ status: "completed", result: 1 });
    expect(query(file, "select * from event_waits")).toEqual([]);
    expect(query(file, "select * from timers")).toEqual([]);
  });
});
