import { andSleep, andThen, andWaitFor, defineWorkflow, type StepContext } from "agentserve";
import * as v from "valibot";
import { expect, it, onTestFinished } from "vitest";
import { createClock, createServer } from "agentserve/testing";
import { describeInProcess } from "../harness/server.ts";

/** The steps that ran, in order, by execution. */
const ran = new Map<string, string[]>();
const runsOf = (execution: string): string[] => ran.get(execution) ?? [];
const note = ({ executionId, stepId }: { executionId: string; stepId: string }): void =>
  void ran.set(executionId, [...runsOf(executionId), stepId]);
const respondAsync = { headers: { prefer: "respond-async" } };

/** Everything that a journal has besides the results of steps: loops, branches, maps, and the ends of waits. */
const looping = defineWorkflow({ id: "looping", input: v.array(v.string()) })
  .andForEach({
    id: "each",
    items: ({ data }) => data,
    concurrency: 2,
    map: (_, item) => [item],
    step: andThen({
      id: "pay",
      execute: (context: StepContext<string[]>) => (note(context), `${String(context.data)}!`),
    }),
  })
  .andForEach({
    id: "collects",
    onError: "collect",
    step: andThen({
      id: "may-fail",
      execute: (context) => {
        note(context);
        if (context.stepId === "collects/1/may-fail") throw new Error("not this one");
        return "fine";
      },
    }),
  })
  .andMap({ id: "none", map: { n: { source: "value", value: 0 as number } } })
  .andDoWhile({
    id: "loop",
    step: andThen({ id: "more", execute: (context) => (note(context), { n: context.data.n + 1 }) }),
    condition: ({ data }) => data.n < 3,
  })
  .andBranch({
    id: "branch",
    branches: [
      { condition: (context) => (note(context), true), step: andThen({ id: "yes", execute: note }) },
      { condition: () => false, step: andThen({ id: "no", execute: note }) },
    ],
  })
  .andAll({
    id: "waits",
    steps: [
      andSleep({ id: "nap", duration: 20 }),
      andSleep({ id: "same-nap", duration: 20 }),
      andSleep({ id: "skipped", duration: "2d", skippable: true }),
      andWaitFor({ id: "paid", event: "paid", key: ({ executionId }) => executionId }),
      andWaitFor({ id: "late", event: "late", timeout: 10 }),
      andThen({
        id: "asked",
        execute: (context) => {
          note(context);
          return context.timedOut ? "timed out" : context.suspend("well?", undefined, { timeout: 15 });
        },
      }),
    ],
  })
  .andRace({ id: "first", steps: [andSleep({ id: "short", duration: 1 }), andSleep({ id: "long", duration: "2d" })] })
  .andThen({
    id: "end",
    execute: (context) => (note(context), JSON.stringify([context.data, context.getStepData("each/1/pay")])),
  });

describeInProcess("fork after loops and waits", { workflows: [looping] }, (server) => {
  const path = (id: string): string => `/workflows/looping/executions/${id}`;
  const stateOf = async (id: string) => (await server.get(`${path(id)}/state`)).body.data;
  const idOf = (name: string): string => `fork-${name}`;
  /** Runs the workflow to its end. */
  async function run(id: string): Promise<string> {
    await server.post("/workflows/looping/execute", { input: ["a", "b", "c"], options: { executionId: id } });
    await server.post("/events", { name: "paid", key: id, data: { text: "x".repeat(3_000) } });
    await expect
      .poll(async () => (await stateOf(id)).suspension?.pending ?? (await stateOf(id)).suspension?.stepId)
      .toBe("skipped");
    await server.post(`${path(id)}/resume`, { options: { stepId: "skipped" } });
    await expect.poll(async () => (await stateOf(id)).status).toBe("completed");
    return (await stateOf(id)).result;
  }

  it("copies loops and waits into a fork: nothing before its step runs or waits again", async () => {
    const id = idOf("original");
    const result = await run(id);
    const fork = idOf("fork");
    const forked = await server.post(`${path(id)}/fork`, { fromStep: "end", options: { executionId: fork } });
    expect(forked.body.data).toMatchObject({ status: "completed", result });
    expect(runsOf(fork)).toEqual(["end"]);
    const show = async (one: string, query = "") =>
      (await server.get(`${path(one)}/steps${query}`)).body.data.items.map(
        ({ path: of, type, status, count, input, output, parent }: any) => [
          of,
          type,
          status,
          count,
          input,
          output,
          parent,
        ],
      );
    const all = await show(id);
    expect(await show(fork)).toEqual(all);
    expect(all.map(([of, , status]: string[]) => `${of} ${status}`)).toContain("long aborted");
    for (const loop of ["each", "collects", "loop"]) {
      const query = `?under=${loop}`;
      const byPath = (one: unknown[], other: unknown[]): number => String(one[0]).localeCompare(String(other[0]));
      expect((await show(fork, query)).toSorted(byPath), loop).toEqual((await show(id, query)).toSorted(byPath));
    }
    // A fork of the fork, and one that begins with the waits.
    const again = await server.post(`${path(fork)}/fork`, { fromStep: "end", options: { executionId: idOf("again") } });
    expect(again.body.data).toMatchObject({ status: "completed", result });
    const waiting = idOf("waiting");
    await server.post(`${path(id)}/fork`, { fromStep: "waits", options: { executionId: waiting } }, respondAsync);
    await expect.poll(async () => runsOf(waiting)).toEqual(["asked", "asked"]);
    await server.post(`${path(waiting)}/cancel`);
  });

  it("begins a loop anew in a fork from it", async () => {
    const id = idOf("anew");
    await run(id);
    const fork = idOf("anew-fork");
    await server.post(`${path(id)}/fork`, { fromStep: "collects", options: { executionId: fork } }, respondAsync);
    await expect.poll(() => runsOf(fork).slice(0, 3)).toEqual([0, 1, 2].map((index) => `collects/${index}/may-fail`));
    await server.post(`${path(fork)}/cancel`);
    const steps = (await server.get(`${path(fork)}/steps`)).body.data.items;
    expect(steps.slice(0, 2).map(({ path: of, count }: any) => [of, count])).toEqual([
      ["each", { total: 3, success: 3 }],
      ["collects", { total: 3, success: 2, error: 1 }],
    ]);
  });
});

it("copies a sleep that won a race against a deadline at the same moment, and not the deadline", async () => {
  const asking = (id: string) =>
    andThen({ id, execute: ({ timedOut, suspend }) => timedOut || suspend("well?", undefined, { timeout: "1h" }) });
  const together = defineWorkflow({ id: "together" })
    .andRace({ id: "race", steps: [andSleep({ id: "nap", duration: "1h" }), asking("one"), asking("two")] })
    .andThen({ id: "end", execute: () => "done" });
  const clock = createClock();
  const server = createServer({ workflows: [together] }, { clock });
  onTestFinished(() => server.close());
  const post = async (path: string, body: object): Promise<any> => {
    const headers = { "content-type": "application/json" };
    const sent = new Request(`http://x/workflows/together/${path}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    return ((await (await server.fetch(sent)).json()) as any).data;
  };
  expect(await post("execute", { input: {}, options: { executionId: "x" } })).toMatchObject({ status: "suspended" });
  await clock.advance("1h");
  const state = await server.fetch(new Request("http://x/workflows/together/executions/x/state"));
  expect(await state.json()).toMatchObject({ data: { status: "completed" } });
  expect(await post("executions/x/fork", { fromStep: "end" })).toMatchObject({ status: "completed", result: "done" });
});
