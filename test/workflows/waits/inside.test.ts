import * as v from "valibot";
import { andSleep, andSleepUntil, andThen, andWaitFor, defineWorkflow } from "agentserve";
import { createClock } from "agentserve/testing";
import { describe, expect, it } from "vitest";
import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";
import { after, copyOf, hour, newFile, serve } from "./serve.ts";

// The chain's types follow each step; here steps are put together at run time.
type AnyStep = any;
/** A step that runs others, for a workflow whose data is `{ n: 1 }`. Each runs its step once. */
interface Around {
  type: string;
  options: (step: AnyStep) => object;
  path: (id: string) => string;
  /** The result, if the step inside returns `value`. */
  result: (value: unknown) => unknown;
}
const sub = (step: AnyStep) =>
  new (defineWorkflow({ id: "sub" }).constructor as any)({ ...defineWorkflow({ id: "sub" }), steps: [step] });
const arounds: Around[] = [
  {
    type: "andForEach",
    options: (step) => ({ items: ({ data }: AnyStep) => [data], step }),
    path: (id) => `around/0/${id}`,
    result: (value) => [value],
  },
  {
    type: "andDoWhile",
    options: (step) => ({ condition: () => false, step }),
    path: (id) => `around/0/${id}`,
    result: (value) => value,
  },
  {
    type: "andBranch",
    options: (step) => ({
      branches: [
        { condition: () => true, step },
        { condition: () => false, step: andThen({ id: "never", execute: () => 1 }) },
      ],
    }),
    path: (id) => id,
    result: (value) => [value, null],
  },
  {
    type: "andWorkflow",
    options: (step) => ({ workflow: sub(step) }),
    path: (id) => `around/${id}`,
    result: (value) => value,
  },
];
const wrap = ({ type, options }: Around, step: AnyStep): WorkflowDefinition => {
  const begun = defineWorkflow({ id: "w" }).andThen({ id: "first", execute: () => ({ n: 1 }) });
  return (begun as AnyStep)[type]({ id: "around", ...options(step) });
};

/** Continues on what a SIGKILL at this moment would leave, at the same time. */
async function restart(file: string, now: Date | number, workflow: WorkflowDefinition) {
  const next = serve({ workflows: [workflow] }, { file: copyOf(file), clock: createClock({ now: new Date(now) }) });
  await next.get("/workflows");
  await next.clock.advance(0);
  return next;
}
const stepsOf = async ({ get }: Pick<ReturnType<typeof serve>, "get">, query = "") =>
  (await get(`/workflows/w/executions/w/steps${query}`)).body.data.items;

describe.each(arounds)("inside $type", (around) => {
  const { type, path, result } = around;
  const begin = async (step: AnyStep) => {
    const file = newFile();
    const workflow = wrap(around, step);
    const server = serve({ workflows: [workflow] }, { file });
    await server.begin("w");
    await server.clock.advance(0);
    const crash = (changed?: AnyStep) => restart(file, server.clock.now(), changed ? wrap(around, changed) : workflow);
    return { ...server, crash };
  };

  it("suspends and resumes a step inside another one, and checks its schemas", async () => {
    let runs = 0;
    const ask = andThen({
      id: "ask",
      suspendSchema: v.object({ amount: v.number() }),
      resumeSchema: v.object({ ok: v.boolean() }),
      execute: ({ suspend, resumeData }) => {
        runs++;
        return resumeData ? `ok ${resumeData.ok}` : suspend("ok?", { amount: 3 });
      },
    });
    const first = await begin(ask);
    expect(await first.state("w")).toMatchObject({
      status: "suspended",
      suspension: { kind: "person", stepIndex: 1, stepId: path("ask"), reason: "ok?", data: { amount: 3 } },
    });
    const options = { stepId: path("ask") };
    for (const body of [{ resumeData: { ok: "yes" } }, { resumeData: { ok: "yes" }, options }])
      expect(await first.resume("w", body)).toMatchObject({
        status: 400,
        body: { error: expect.stringMatching(/^Invalid resume data: ok: /) },
      });
    expect(await first.resume("w", {})).toMatchObject({
      status: 400,
      body: { error: "Invalid resume data: resumeData is required" },
    });
    expect([runs, (await first.state("w")).status]).toEqual([1, "suspended"]);

    const second = await first.crash();
    expect((await second.resume("w", { resumeData: { ok: true }, options })).status).toBe(202);
    await second.clock.advance(0);
    expect(await second.state("w")).toMatchObject({ status: "completed", result: result("ok true") });
    expect(runs).toBe(2);
  });

  it("fails an execution with the path of a step whose suspend data is invalid", async () => {
    const { state, server } = await begin(
      andThen({
        id: "ask",
        suspendSchema: v.object({ amount: v.number() }),
        execute: ({ suspend }) => suspend("ok?", { amount: "3" } as never),
      }),
    );
    expect((await state("w")).status).toBe("error");
    const errors = server.logs().map(({ error }) => String(error));
    expect(errors).toContainEqual(expect.stringContaining(`${path("ask")}: invalid suspend data: amount: `));
  });

  it.each([
    ["andSleep", () => andSleep({ id: "nap", duration: "1h" })],
    ["andSleepUntil", () => andSleepUntil({ id: "nap", date: after(hour) })],
  ])("continues %s inside another step after a crash, and ends it at its time", async (_, create) => {
    const first = await begin(create());
    const second = await first.crash();
    await second.clock.advance(hour - 1);
    expect((await second.state("w")).suspension).toMatchObject({
      kind: "timer",
      stepId: path("nap"),
      wakeAt: after(hour),
    });
    expect(await stepsOf(second, `?path=${path("nap")}`)).toMatchObject([
      { status: "suspended", suspension: { kind: "timer", wakeAt: after(hour) } },
    ]);
    await second.clock.advance(1);
    expect(await second.state("w")).toMatchObject({ status: "completed", result: result({ n: 1 }) });
    expect(await stepsOf(second, `?path=${path("nap")}`)).toMatchObject([{ status: "success", endAt: after(hour) }]);
  });

  it("continues andWaitFor inside another step after a crash, with its event or its time-out", async () => {
    const first = await begin(
      andWaitFor({ id: "wait", event: "go", key: ({ data }: AnyStep) => `${data.n}`, timeout: "1h" }),
    );
    expect((await first.state("w")).suspension).toMatchObject({
      kind: "event",
      stepId: path("wait"),
      event: "go",
      key: "1",
      deadline: after(hour),
    });
    const second = await first.crash();
    await second.post("/events", { name: "go", key: "1", data: { paid: true } });
    await second.clock.advance(0);
    expect(await second.state("w")).toMatchObject({ status: "completed", result: result({ paid: true }) });
    const third = await first.crash();
    await third.clock.advance("1h");
    expect(await third.state("w")).toMatchObject({ status: "completed", result: result(null) });
  });

  it("retries a step inside another one after its delay, over a crash as well, and repeats nothing else", async () => {
    const runs: string[] = [];
    const first = await begin(
      andThen({
        id: "work",
        retry: { attempts: 3, delay: 60_000 },
        execute: ({ attempt, stepId }) => {
          runs.push(`${stepId} ${attempt}`);
          if (attempt < 3) throw new Error(`no ${attempt}`);
          return "worked";
        },
      }),
    );
    expect(await first.state("w")).toMatchObject({ status: "running" });
    expect(await stepsOf(first, `?path=${path("work")}`)).toMatchObject([
      { status: "waiting", attempts: [{ attempt: 1, error: expect.any(String) }], nextAttemptAt: after(60_000) },
    ]);
    const second = await first.crash();
    await second.clock.advance("2m");
    expect(await second.state("w")).toMatchObject({ status: "completed", result: result("worked") });
    expect(runs).toEqual([1, 2, 3].map((attempt) => `${path("work")} ${attempt}`));
  });

  it("repeats a failed step inside another one when the execution is retried", async () => {
    let isBroken = true;
    const { post, state, clock } = await begin(
      andThen({
        id: "work",
        execute: () => {
          if (isBroken) throw new Error("broken");
          return "worked";
        },
      }),
    );
    expect((await state("w")).status).toBe("error");
    isBroken = false;
    expect((await post("/workflows/w/executions/w/retry", {}, { prefer: "respond-async" })).status).toBe(202);
    await clock.advance(0);
    expect(await state("w")).toMatchObject({ status: "completed", result: result("worked") });
  });

  it("aborts a step in flight inside another one by a cancel, and ends a sleep and a wait for good", async () => {
    let isAborted = false;
    const working = await begin(
      andThen({
        id: "work",
        execute: ({ signal }) =>
          new Promise((resolve) => {
            signal.addEventListener("abort", () => resolve((isAborted = true)));
          }),
      }),
    );
    const cancel = ({ post }: Pick<typeof working, "post">) =>
      post("/workflows/w/executions/w/cancel", { reason: "enough" });
    expect((await cancel(working)).status).toBe(200);
    expect(isAborted).toBe(true);
    expect(await stepsOf(working, `?path=${path("work")}`)).toMatchObject([{ status: "aborted" }]);

    for (const step of [
      andSleep({ id: "wait", duration: "1h" }),
      andWaitFor({ id: "wait", event: "go", timeout: "1h" }),
    ]) {
      const waiting = await begin(step);
      expect((await cancel(waiting)).body.data).toMatchObject({ status: "error", cancellation: { reason: "enough" } });
      await waiting.post("/events", { name: "go" });
      await waiting.clock.advance("2h");
      const { status, endAt } = await waiting.state("w");
      expect([status, endAt]).toEqual(["error", after(0)]);
      expect(await stepsOf(waiting, `?path=${path("wait")}`)).toMatchObject([{ status: "aborted", endAt: after(0) }]);
    }
  });

  it("suspends an execution whose inner wait ends on changed code, and says what has changed", async () => {
    const first = await begin(andWaitFor({ id: "wait", event: "go", timeout: "1h" }));
    const changed = await first.crash(andWaitFor({ id: "renamed", event: "go", timeout: "1h" }));
    await changed.clock.advance("1h");
    const inside = type === "andBranch" ? (id: string) => id : (id: string) => `around/${id}`;
    const reason = `Workflow changed: step ${inside("renamed")} is now where step ${inside("wait")} was`;
    expect((await changed.state("w")).suspension).toMatchObject({ kind: "system", reason });
    expect(await changed.resume("w")).toMatchObject({ status: 409, body: { error: reason } });
    const sleeping = await begin(andSleep({ id: "wait", duration: "1h" }));
    const other = await sleeping.crash(andSleepUntil({ id: "wait", date: after(hour) }));
    await other.clock.advance("1h");
    expect((await other.state("w")).suspension).toMatchObject({
      kind: "system",
      reason: `Workflow changed: step ${inside("wait")} was andSleep and is now andSleepUntil`,
    });
  });

  it("names each step inside another one by its path in events", async () => {
    const { get, clock, server } = await begin(andSleep({ id: "nap", duration: "1h" }));
    await clock.advance("1h");
    const response = await server.fetch(new Request("http://localhost/workflows/w/executions/w/stream?after=0"));
    const events = [...(await response.text()).matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json!));
    const told = events.map(({ type: name, from, stepType }) => [name, from, stepType].filter(Boolean).join(" "));
    expect(told).toContain(`step-start ${path("nap")} andSleep`);
    expect(told.filter((text) => text.startsWith("workflow-suspended"))).toHaveLength(1);
    expect(told.indexOf(`step-complete ${path("nap")} andSleep`)).toBeLessThan(
      told.indexOf(`step-complete around ${type}`),
    );
    expect((await get("/workflows/w/executions/w/steps")).body.data.items.at(-1).status).toBe("success");
  });
});
