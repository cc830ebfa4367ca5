import { andSleep, andSleepUntil, andThen, defineWorkflow } from "agentserve";
import { randomUUID } from "node:crypto";
import { describe, expect, it, onTestFinished } from "vitest";
import { unchecked } from "../../src/core/caller.ts";
import type { JsonText } from "../../src/core/json.ts";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import { begin as beginOn } from "../../src/workflows/executions.ts";
import { openEngine } from "./engine.ts";
import { freePort } from "./restate-server.ts";
import { patienceMs } from "../harness/patience.ts";
import { bySize } from "../harness/size.ts";
import { createPlace, startHere } from "./waiting-server.ts";

const timeout = 4 * patienceMs;
const ran: string[] = [];
const note = (id: string) => ({
  id,
  execute: ({ data, executionId }: { data: unknown; executionId: string }) => (ran.push(`${executionId} ${id}`), data),
});
const timesRan = (text: string): number => ran.filter((one) => one === text).length;

/** Every wait of more than 1 ms is a suspension. */
const noInline = { inlineSleepMs: 1 };

const nap = defineWorkflow({ id: "nap" })
  .andSleep({ id: "sleep", duration: ({ input }) => Number((input as { ms: number }).ms) })
  .andThen(note("end"));
const ask = defineWorkflow({ id: "ask" }).andThen({
  id: "person",
  execute: ({ executionId, suspend, timedOut, resumeData, input }) => {
    if (timedOut || resumeData !== undefined) ran.push(`${executionId} answered`);
    if (timedOut) return "late";
    return resumeData ?? suspend("Approve?", undefined, { timeout: (input as { ms: number }).ms });
  },
});

describe("a sleep on Restate", () => {
  it("keeps a sleep as one scheduled call, and continues the execution once over a restart", { timeout }, async () => {
    const place = await createPlace();
    const first = await place.start([nap], noInline);
    await first.begin("s1", { ms: 4_000 });
    await first.reach("s1", "suspended");
    expect(await first.state("s1")).toMatchObject({ suspension: { kind: "timer", stepId: "sleep" } });
    expect(await place.scheduled()).toEqual([{ key: "s1" }]);
    const second = await place.start([nap], noInline);
    await second.reach("s1", "completed");
    expect(timesRan("s1 end")).toBe(1);
    expect(await place.scheduled()).toEqual([]);
  });

  it("continues after a sleep though its drive reads slower than a caller waits", { timeout }, async () => {
    const place = await createPlace({ timeouts: { readMs: 1, writeMs: patienceMs } });
    const { begin } = await place.start([nap], noInline);
    await begin("s9", { ms: 500 });
    await expect.poll(() => timesRan("s9 end"), { timeout: patienceMs }).toBe(1);
  });

  it("keeps no scheduled call of a sleep after a cancel", { timeout }, async () => {
    const place = await createPlace();
    const { server, begin, reach } = await place.start([nap], noInline);
    await begin("s2", { ms: 3_600_000 });
    await reach("s2", "suspended");
    expect(await place.scheduled()).toEqual([{ key: "s2" }]);
    await server.post("/workflows/nap/executions/s2/cancel", {});
    await expect.poll(() => place.scheduled(), { timeout: patienceMs }).toEqual([]);
  });

  it("neither suspends for a short sleep nor keeps a slot for it", { timeout }, async () => {
    const short = defineWorkflow({ id: "short" }).andSleep({ id: "sleep", duration: 3_000 }).andThen(note("after"));
    const quick = defineWorkflow({ id: "quick" }).andThen(note("quick"));
    const place = await createPlace();
    const { server, begin, reach, state } = await place.start([short, quick], { runningExecutions: 1 });
    await begin("s3");
    await begin("s4");
    const { body } = await server.post("/workflows/quick/execute", { input: {} });
    expect(body.data.status).toBe("completed");
    expect(await state("s3")).toMatchObject({ status: "running" });
    expect(await place.scheduled()).toEqual([]);
    for (const id of ["s3", "s4"]) await reach(id, "completed");
    expect([timesRan("s3 after"), timesRan("s4 after")]).toEqual([1, 1]);
  });

  it("neither suspends for a retry delay nor keeps a slot for it", { timeout }, async () => {
    const again = defineWorkflow({ id: "again" }).andThen({
      id: "fails",
      retry: { attempts: 2, delay: 3_000 },
      execute: ({ attempt }) => {
        ran.push(`r1 ${attempt}`);
        if (attempt === 1) throw new Error("not yet");
        return attempt;
      },
    });
    const quick = defineWorkflow({ id: "quick" }).andThen(note("quick"));
    const { server, begin, reach, state } = await startHere([again, quick], { runningExecutions: 1 });
    await begin("r1");
    await expect.poll(() => timesRan("r1 1"), { timeout: patienceMs }).toBe(1);
    const { body } = await server.post("/workflows/quick/execute", { input: {} });
    expect(body.data.status).toBe("completed");
    expect([(await state("r1")).status, timesRan("r1 2")]).toEqual(["running", 0]);
    await reach("r1", "completed");
  });

  it("continues once after sleeps that end together", { timeout }, async () => {
    const sleep = (id: string) => andSleepUntil({ id, date: ({ input }) => new Date((input as { at: number }).at) });
    const all = defineWorkflow({ id: "all" }).andAll({ id: "all", steps: [sleep("x"), sleep("y"), sleep("z")] });
    const place = await createPlace();
    const { server, begin, reach } = await place.start([all], noInline);
    await begin("s5", { at: Date.now() + 4_000 });
    await reach("s5", "suspended");
    expect(await place.scheduled()).toEqual([{ key: "s5" }]);
    await reach("s5", "completed");
    const { events } = await server.get("/workflows/all/executions/s5/stream");
    expect(events.filter(({ type }: { type?: string }) => type === "workflow-suspended")).toHaveLength(1);
  });

  it("suspends an execution whose sleep is due on changed code", { timeout }, async () => {
    const changed = defineWorkflow({ id: "nap" }).andSleep({ id: "other", duration: 1 }).andThen(note("end"));
    const place = await createPlace();
    const first = await place.start([nap], noInline);
    await first.begin("s7", { ms: 4_000 });
    await first.reach("s7", "suspended");
    const second = await place.start([changed], noInline);
    await expect.poll(async () => (await second.state("s7")).suspension?.kind, { timeout: patienceMs }).toBe("system");
    expect((await second.state("s7")).suspension.reason).toMatch(/^Workflow changed: /);
    const third = await place.start([nap], noInline);
    await third.server.post("/workflows/nap/executions/s7/resume", {});
    await third.reach("s7", "completed");
    expect(timesRan("s7 end")).toBe(1);
  });
});

describe("a deadline on Restate", () => {
  it("ends the wait for a person at its deadline, over a restart", { timeout }, async () => {
    const place = await createPlace();
    const first = await place.start([ask]);
    await first.begin("d1", { ms: 4_000 });
    await first.reach("d1", "suspended");
    expect(await first.state("d1")).toMatchObject({ suspension: { kind: "person", deadline: expect.any(String) } });
    const second = await place.start([ask]);
    await second.reach("d1", "completed");
    expect((await second.state("d1")).result).toBe("late");
  });

  it("removes the scheduled call of a deadline at a resume before it", { timeout }, async () => {
    const place = await createPlace();
    const { server, begin, reach } = await place.start([ask]);
    await begin("d2", { ms: 3_600_000 });
    await reach("d2", "suspended");
    expect(await place.scheduled()).toEqual([{ key: "d2" }]);
    await server.post("/workflows/ask/executions/d2/resume", { resumeData: "yes" });
    await reach("d2", "completed");
    expect(await place.scheduled()).toEqual([]);
  });

  it("gives a deadline and a resume at the same time one outcome", { timeout }, async () => {
    const { server, begin, reach, state } = await startHere([ask]);
    const outcomes = new Map<string, number>();
    const race = async (index: number): Promise<void> => {
      const id = `d3-${index}`;
      await begin(id, { ms: 2_000 });
      await expect.poll(async () => (await state(id)).status, { timeout: patienceMs }).not.toBe("running");
      const { suspension } = await state(id); // none if the machine was too slow
      const ms = suspension ? Date.parse(suspension.deadline) - Date.now() - 300 + (index % 10) * 40 : 0;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
      const { status } = await server.request(`/workflows/ask/executions/${id}/resume`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ resumeData: "yes" }),
      });
      await reach(id, "completed");
      const { result } = await state(id);
      expect(result, `the resume got ${status}`).toBe(status === 200 ? "yes" : "late");
      expect(timesRan(`${id} answered`)).toBe(1);
      outcomes.set(result, (outcomes.get(result) ?? 0) + 1);
    };
    const count = bySize(40, 1_000);
    for (let index = 0; index < count; index += 10)
      await Promise.all(Array.from({ length: 10 }, (_, offset) => race(index + offset)));
    console.log(`${count} races of a deadline and a resume:`, Object.fromEntries(outcomes));
  });
});

describe("several waits on Restate", () => {
  const mixed = defineWorkflow({ id: "mixed" }).andAll({
    id: "all",
    steps: [
      andSleep({ id: "nap", duration: 2_500 }),
      andSleep({ id: "long", duration: "1h", skippable: true }),
      andThen({ id: "person", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Approve?") }),
    ],
  });

  it("decides a resume of one of several waits against its branch, not against the epoch", { timeout }, async () => {
    const place = { name: `branch-${randomUUID()}`, port: await freePort() };
    const { engine, runnable } = await openEngine(place, mixed as unknown as WorkflowDefinition); // the chain is one
    onTestFinished(() => engine.close({ drainMs: 0 }));
    await beginOn(engine, runnable, {}, { executionId: "b1" }, unchecked);
    const { epoch, last } = await engine.settled("b1", 0);
    const branch = last?.to === "suspended" ? last.pending[0]!.key! : "";
    await engine.settled("b1", epoch); // the first sleep has ended
    const how = { stepId: "person", data: '"yes"' as JsonText };
    expect(await engine.resume("b1", epoch, how, runnable)).toBe(false);
    expect(await engine.resume("b1", epoch, { ...how, branch }, runnable)).toMatchObject({ status: "running" });
    const { last: after } = await engine.settled("b1", epoch + 3);
    expect(after).toMatchObject({ to: "suspended", pending: [{ stepId: "long" }] });
    expect(await engine.resume("b1", epoch, { ...how, branch }, runnable)).toBe(false);
  });

  it("lists several waits by each of their kinds, and skips one after the other", { timeout }, async () => {
    const place = await createPlace();
    const { server, begin, reach, state } = await place.start([mixed], noInline);
    await begin("m1");
    await reach("m1", "suspended");
    const listed = async (kind: string) => {
      const { body } = await server.get(`/executions?kind=${kind}`);
      return body.data.items.map(({ executionId }: { executionId: string }) => executionId);
    };
    expect([await listed("person"), await listed("timer"), await listed("event")]).toEqual([["m1"], ["m1"], []]);
    expect((await state("m1")).suspension.pending).toHaveLength(3);
    await expect.poll(async () => (await state("m1")).suspension?.pending?.length, { timeout: patienceMs }).toBe(2);
    expect(await place.scheduled()).toEqual([{ key: "m1" }]);
    await server.post("/workflows/mixed/executions/m1/resume", { resumeData: "yes" });
    await expect.poll(async () => (await state("m1")).suspension?.kind, { timeout: patienceMs }).toBe("timer");
    await server.post("/workflows/mixed/executions/m1/resume", { options: { stepId: "long" } });
    await reach("m1", "completed");
    expect(await place.scheduled()).toEqual([]);
  });
});
