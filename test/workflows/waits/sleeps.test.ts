import { andSleep, andThen, andWaitFor, andWorkflow, defineWorkflow } from "agentserve";
import { createClock } from "agentserve/testing";
import { describe, expect, it } from "vitest";
import { after, hour, newFile, query, serve } from "./serve.ts";
import { withBounds } from "../../harness/bounds.ts";

const nap = (duration: number | string, id = "w") => defineWorkflow({ id }).andSleep({ id: "nap", duration });

describe("andSleep and andSleepUntil", () => {
  it("sleeps for milliseconds, texts, dates and results of functions, and keeps data", async () => {
    const given = { id: "given", execute: () => ({ kept: true }) };
    const workflows = [
      defineWorkflow({ id: "ms" }).andThen(given).andSleep({ id: "nap", duration: hour }),
      defineWorkflow({ id: "text" }).andThen(given).andSleep({ id: "nap", duration: "1h" }),
      defineWorkflow({ id: "code" })
        .andThen(given)
        .andSleep({ id: "nap", duration: async ({ data }) => (data.kept ? "60m" : 0) }),
      defineWorkflow({ id: "date" })
        .andThen(given)
        .andSleepUntil({ id: "nap", date: new Date(after(hour)) }),
      defineWorkflow({ id: "iso" })
        .andThen(given)
        .andSleepUntil({ id: "nap", date: () => after(hour) }),
    ];
    const { begin, state, clock } = serve({ workflows });
    for (const { id } of workflows) await begin(id);
    await clock.advance(hour - 1);
    for (const { id } of workflows)
      expect(await state(id), id).toMatchObject({
        status: "suspended",
        suspension: {
          kind: "timer",
          stepIndex: 1,
          stepId: "nap",
          reason: `Sleeping until ${after(hour)}`,
          wakeAt: after(hour),
        },
      });
    await clock.advance(1);
    for (const { id } of workflows)
      expect(await state(id), id).toMatchObject({ status: "completed", result: { kept: true }, endAt: after(hour) });
  });

  it("ends a sleep at once if its time is negative or past", async () => {
    const workflows = [nap(-5), defineWorkflow({ id: "past" }).andSleepUntil({ id: "nap", date: after(-hour) })];
    const { begin, state, clock } = serve({ workflows });
    for (const id of ["w", "past"]) {
      await begin(id);
      await clock.advance(0);
      expect((await state(id)).status).toBe("completed");
    }
  });

  it("keeps sleeps of up to inlineSleepMs running, without a slot and beside both limits", async () => {
    const bounds = { inlineSleepMs: 2_000, runningExecutions: 1, queuedExecutions: 1 };
    const other = defineWorkflow({ id: "other" }).andThen({ id: "a", execute: () => "done" });
    const workflows = [nap(2_000, "short"), nap(2_001, "long"), other];
    const { begin, state, clock, post } = serve(withBounds(bounds, { workflows }));
    for (let n = 0; n < 5; n++) {
      expect((await begin("short", `s${n}`)).status).toBe(202);
      expect((await begin("long", `l${n}`)).status).toBe(202);
      await clock.advance(0);
    }
    expect((await state("short", "s0")).status).toBe("running");
    expect((await state("long", "l0")).status).toBe("suspended");
    expect((await post("/workflows/other/execute", { input: {} })).body.data.result).toBe("done");
    await clock.advance(2_001);
    for (let n = 0; n < 5; n++) {
      expect((await state("short", `s${n}`)).status).toBe("completed");
      expect((await state("long", `l${n}`)).status).toBe("completed");
    }
  });

  it("suspends for a short sleep beside a person, and ends the sleep while the person is awaited", async () => {
    const workflow = defineWorkflow({ id: "w" }).andAll({
      id: "all",
      steps: [
        andSleep({ id: "nap", duration: 100 }),
        andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Ok?") }),
      ],
    });
    const { begin, state, clock, resume } = serve({ workflows: [workflow] });
    await begin("w");
    await clock.advance(0);
    const { suspension } = await state("w");
    expect([suspension.kind, suspension.stepId]).toEqual(["person", "ask"]);
    expect(suspension.pending.map(({ kind }: { kind: string }) => kind)).toEqual(["person", "timer"]);
    await clock.advance(100);
    expect((await state("w")).suspension).not.toHaveProperty("pending");
    await resume("w", { resumeData: "yes" });
    await clock.advance(0);
    expect(await state("w")).toMatchObject({ status: "completed", result: [expect.anything(), "yes"] });
  });

  it("lets a sleep win a race, and removes the waits of the losers from the file", async () => {
    const file = newFile();
    const workflow = defineWorkflow({ id: "w" })
      .andRace({
        id: "race",
        steps: [
          andSleep({ id: "short", duration: "1h" }),
          andSleep({ id: "long", duration: "9h" }),
          andWaitFor({ id: "event", event: "go", timeout: "8h" }),
        ],
      })
      .andWaitFor({ id: "next", event: "next" });
    const { begin, state, clock } = serve({ workflows: [workflow] }, { file });
    await begin("w");
    await clock.advance("1m");
    expect(query(file, "select name from event_waits")).toEqual([{ name: "go" }]);
    expect(query(file, "select due from timers")).toEqual([{ due: Date.parse(after(hour)) }]);
    await clock.advance("1h");
    expect((await state("w")).suspension).toMatchObject({ stepId: "next", kind: "event" });
    expect(query(file, "select name from event_waits")).toEqual([{ name: "next" }]);
    expect(query(file, "select due from timers")).toEqual([]);
  });

  it("continues sleeps after a restart, short ones and those with recovery: fail as well", async () => {
    const file = newFile();
    const workflows = [
      defineWorkflow({ id: "long", recovery: "fail" }).andSleep({ id: "nap", duration: "1h" }),
      defineWorkflow({ id: "short", recovery: "fail" }).andSleep({ id: "nap", duration: "4s" }),
    ];
    const first = serve({ workflows, server: { limits: { drainMs: 10 } } }, { file });
    for (const { id } of workflows) await first.begin(id);
    await first.clock.advance("1s");
    await first.close();
    const second = serve({ workflows }, { file, clock: createClock({ now: first.clock.now() }) });
    await second.get("/workflows");
    await second.clock.advance(2_999);
    expect((await second.state("short")).status).toBe("running");
    await second.clock.advance(1);
    expect((await second.state("short")).status).toBe("completed");
    await second.clock.advance("1h");
    expect(await second.state("long")).toMatchObject({ status: "completed" });
    expect(query(file, "select * from timers")).toEqual([]);
  });
});

describe("commands while an execution sleeps", () => {
  it("refuses a resume and a suspend of a sleeping execution with its reason, and accepts a cancel", async () => {
    const workflows = [nap("1h"), defineWorkflow({ id: "e" }).andWaitFor({ id: "w", event: "go" })];
    const { begin, state, clock, resume, post } = serve({ workflows });
    await begin("w");
    await begin("e");
    await clock.advance(0);
    const sleeping = { success: false, error: `Execution w sleeps until ${after(hour)}`, executionId: "w" };
    expect(await resume("w")).toMatchObject({ status: 409, body: { error: sleeping.error } });
    expect(await resume("w", { options: { stepId: "nap" } })).toMatchObject({
      status: 409,
      body: { error: sleeping.error },
    });
    expect(await resume("e")).toMatchObject({
      status: 409,
      body: { error: "Execution e waits for the event go" },
    });
    expect((await post("/workflows/w/executions/w/suspend", {})).status).toBe(400);
    expect((await post("/workflows/w/executions/w/cancel", {})).status).toBe(200);
    await clock.advance("2h");
    expect(await state("w")).toMatchObject({ status: "error", endAt: after(0) });
  });

  it("skips a skippable wait by its stepId only", async () => {
    const workflow = defineWorkflow({ id: "w" })
      .andSleep({ id: "nap", duration: "1h", skippable: true })
      .andWaitFor({ id: "go", event: "go", skippable: true });
    const { begin, state, clock, resume } = serve({ workflows: [workflow] });
    await begin("w");
    await clock.advance(0);
    expect((await resume("w")).status).toBe(409);
    expect((await resume("w", { options: { stepId: "nap" }, resumeData: "ignored" })).status).toBe(202);
    await clock.advance(0);
    expect((await state("w")).suspension).toMatchObject({ stepId: "go" });
    expect((await resume("w", { options: { stepId: "go" } })).status).toBe(202);
    await clock.advance(0);
    expect(await state("w")).toMatchObject({ status: "completed", result: null });
  });

  it("holds timers back while a request suspends the execution, and ends them at the resume in the order of their times", async () => {
    const ended: string[] = [];
    const part = (id: string, duration: string) =>
      andWorkflow({
        id,
        workflow: defineWorkflow({ id })
          .andSleep({ id: "nap", duration })
          .andThen({ id: "note", execute: () => void ended.push(id) }),
      });
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const workflow = defineWorkflow({ id: "w" }).andAll({
      id: "all",
      steps: [
        part("third", "3h"),
        part("first", "1h"),
        part("second", "2h"),
        andThen({ id: "gate", execute: () => gate }),
      ],
    });
    const { begin, state, clock, resume, post } = serve({ workflows: [workflow] });
    await begin("w");
    await clock.advance("10m");
    expect(await post("/workflows/w/executions/w/suspend", { reason: "Stop" })).toMatchObject({ status: 200 });
    open();
    await clock.advance("170m");
    expect((await state("w")).suspension).toMatchObject({ kind: "request", reason: "Stop" });
    expect(ended).toEqual([]);
    expect((await resume("w")).status).toBe(202);
    await clock.advance(0);
    expect(ended).toEqual(["first", "second", "third"]);
    expect((await state("w")).status).toBe("completed");
  });
});

describe("a deadline of suspend", () => {
  it.each([
    ["a duration", "1h"],
    ["milliseconds", hour],
    ["a date", new Date(after(hour))],
  ])("continues a step with timedOut after a deadline given as %s, unless it is resumed before", async (_, timeout) => {
    const workflow = defineWorkflow({ id: "w" }).andThen({
      id: "ask",
      execute: ({ suspend, timedOut, resumeData, resumedBy }) =>
        timedOut || resumeData ? { timedOut, resumeData, resumedBy } : suspend("Ok?", { form: 1 }, { timeout }),
    });
    const { begin, state, clock, resume } = serve({ workflows: [workflow] });
    await begin("w", "late");
    await begin("w", "early");
    await clock.advance(hour - 1);
    expect((await state("w", "late")).suspension).toMatchObject({
      kind: "person",
      deadline: after(hour),
      data: { form: 1 },
    });
    expect((await resume("w", { resumeData: "yes" }, "early")).status).toBe(202);
    await clock.advance(1);
    expect((await state("w", "late")).result).toEqual({ timedOut: true });
    expect((await state("w", "early")).result).toMatchObject({ timedOut: false, resumeData: "yes" });
    expect((await resume("w", { resumeData: "too late" }, "late")).status).toBe(404);
  });
});

describe("a wait that comes due on changed code", () => {
  it("suspends an execution whose sleep ends on changed code, until a resume on matching code", async () => {
    const file = newFile();
    const code = (id: string) =>
      defineWorkflow({ id: "w" })
        .andSleep({ id, duration: "1h" })
        .andThen({ id: "end", execute: () => "done" });
    const first = serve({ workflows: [code("nap")] }, { file });
    await first.begin("w");
    await first.clock.advance("1m");
    await first.close();
    const second = serve({ workflows: [code("renamed")] }, { file, clock: createClock({ now: first.clock.now() }) });
    await second.get("/workflows");
    await second.clock.advance("1h");
    expect((await second.state("w")).suspension).toMatchObject({
      kind: "system",
      reason: expect.stringMatching(/^Workflow changed: /),
    });
    expect((await second.resume("w")).status).toBe(409);
    await second.close();
    const third = serve({ workflows: [code("nap")] }, { file, clock: createClock({ now: second.clock.now() }) });
    expect((await third.resume("w")).status).toBe(202);
    await third.clock.advance(0);
    expect(await third.state("w")).toMatchObject({ status: "completed", result: "done" });
  });
});

describe("an execution that waits", () => {
  it("wakes an execution though a branch that lost a race has not ended", async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const workflow = defineWorkflow({ id: "w" })
      .andRace({
        id: "race",
        steps: [andThen({ id: "deaf", execute: () => gate }), andThen({ id: "fast", execute: () => 1 })],
      })
      .andSleep({ id: "nap", duration: "1h" });
    const { begin, state, clock } = serve({ workflows: [workflow] });
    await begin("w");
    await clock.advance("1h");
    expect((await state("w")).status).toBe("completed");
    open();
  });

  it("keeps the place of an execution in its group through a retry delay and a restart, until a cancel", async () => {
    const file = newFile();
    const workflow = defineWorkflow({ id: "w", concurrency: { key: () => "all", limit: 1 } }).andThen({
      id: "pay",
      retry: { attempts: 2, delay: 3_600_000 },
      execute: ({ executionId }) => {
        if (executionId === "one") throw new Error("no");
        return "paid";
      },
    });
    const first = serve({ workflows: [workflow] }, { file });
    await first.begin("w", "one");
    await first.clock.advance("1m");
    await first.begin("w", "two");
    await first.clock.advance("1m");
    expect((await first.state("w", "two")).status).toBe("running");
    await first.close();
    const second = serve({ workflows: [workflow] }, { file, clock: createClock({ now: first.clock.now() }) });
    await second.get("/workflows");
    await second.clock.advance("1m");
    expect((await second.state("w", "two")).status).toBe("running");
    expect((await second.post("/workflows/w/executions/one/cancel", {})).status).toBe(200);
    await second.clock.advance("1m");
    expect((await second.state("w", "two")).status).toBe("completed");
  });
});
