import * as v from "valibot";
import { andDoUntil, andMap, andThen, andWorkflow, defineWorkflow, type StepContext } from "agentserve";
import { beforeEach, expect, it } from "vitest";
import { describeInProcess, type TestServer } from "../../harness/server.ts";

const input = v.object({ n: v.number() });
/** The code that has run, in order. */
let ran: string[] = [];
let isBroken = false;
beforeEach(() => {
  ran = [];
  isBroken = false;
});

const increment = (id: string) =>
  andThen({
    id,
    execute: ({ data, stepId }: StepContext<{ n: number }>) => {
      ran.push(stepId);
      return { n: data.n + 1 };
    },
  });
const doWhile = defineWorkflow({ id: "while", input }).andDoWhile({
  id: "loop",
  step: increment("inc"),
  condition: ({ data, stepId }) => {
    ran.push(`${stepId}?`);
    return data.n < 3;
  },
});
const doUntil = defineWorkflow({ id: "until", input })
  .andDoUntil({
    id: "loop",
    steps: [
      increment("inc"),
      andThen({
        id: "ask",
        resumeSchema: v.object({ add: v.number() }),
        retry: { attempts: 2 },
        execute: ({ data, suspend, resumeData, attempt, stepId }: StepContext<{ n: number }, unknown, unknown>) => {
          ran.push(stepId);
          if (isBroken) throw new Error("broken");
          if (data.n === 2 && attempt === 1) throw new Error("once more");
          if (data.n !== 3) return data;
          return resumeData === undefined ? suspend("how many?") : { n: data.n + (resumeData as { add: number }).add };
        },
      }),
    ],
    condition: async ({ data, getStepData }) => {
      ran.push(`condition ${JSON.stringify(getStepData("inc") ?? null)}`);
      return data.n >= 5;
    },
  })
  .andThen({
    id: "end",
    execute: ({ data, getStepData }) => [data, getStepData("loop/0/inc"), getStepData("inc") ?? null],
  });
const endless = defineWorkflow({ id: "endless", input }).andDoWhile({
  id: "loop",
  step: increment("inc"),
  condition: () => true,
  maxIterations: 4,
});
const exact = defineWorkflow({ id: "exact", input }).andDoUntil({
  id: "loop",
  step: increment("inc"),
  condition: ({ data }) => data.n === 4,
  maxIterations: 4,
});
const many = defineWorkflow({ id: "many", input }).andDoWhile({
  id: "loop",
  step: andThen({ id: "inc", execute: ({ data }) => ({ n: data.n + 1 }) }),
  condition: ({ data }) => data.n < 1_000,
});
const nested = defineWorkflow({ id: "nested", input }).andDoWhile({
  id: "outer",
  step: andDoUntil({ id: "inner", step: increment("inc"), condition: ({ data }) => data.n % 2 === 0 }),
  condition: ({ data }) => data.n < 4,
});
const subs = defineWorkflow({ id: "subs", input }).andForEach({
  id: "each",
  items: ({ data }) => [{ n: data.n }, { n: data.n + 1 }],
  step: andWorkflow({ id: "sub", workflow: doWhile }),
});
const branches = defineWorkflow({ id: "branches", input }).andBranch({
  id: "branch",
  branches: [1, 2, 3].map((most) => ({
    condition: async ({ data, stepId }: Omit<StepContext<{ n: number }>, "suspend">) => {
      ran.push(`${stepId}?${most}`);
      return data.n >= most;
    },
    step: andThen({
      id: `b${most}`,
      execute: ({ data, suspend, resumeData }: StepContext<{ n: number }, unknown, unknown>) => {
        ran.push(`b${most}`);
        if (isBroken && most === 2) throw new Error("no 2");
        return data.n === 9 && most === 2 && resumeData === undefined ? suspend("ok?") : `${most}: ${data.n}`;
      },
    }),
  })),
});
const broken = defineWorkflow({ id: "broken", input }).andBranch({
  id: "branch",
  branches: [
    {
      condition: () => {
        throw new Error("cannot tell");
      },
      step: increment("inc"),
    },
    { condition: () => true, step: increment("other") },
  ],
});
const maps = defineWorkflow({ id: "maps" })
  .andThen({ id: "user", execute: () => ({ name: "Ann", tags: ["a", "b"], empty: null }) })
  .andForEach({
    id: "each",
    items: () => [1, 2],
    step: andThen({ id: "pay", execute: ({ data }) => ({ paid: data }) }),
  })
  .andMap({
    id: "map",
    map: {
      value: { source: "value", value: { fixed: [1] } },
      data: { source: "data" },
      part: { source: "data", path: "1.paid" },
      input: { source: "input", path: "order.id" },
      step: { source: "step", stepId: "user", path: "tags.1" },
      whole: { source: "step", stepId: "user" },
      item: { source: "step", stepId: "each/1/pay", path: "paid" },
      noItem: { source: "step", stepId: "each/7/pay", path: "paid" },
      context: { source: "context", key: "tenant" },
      region: { source: "context", key: "place", path: "region" },
      fn: { source: "fn", fn: async ({ data, getStepData }) => [data.length, getStepData("user") !== undefined] },
      nowhere: { source: "data", path: "1.nothing.here" },
      beyondNull: { source: "step", stepId: "user", path: "empty.more" },
      proto: { source: "data", path: "__proto__" },
      inherited: { source: "step", stepId: "user", path: "constructor.name" },
      length: { source: "step", stepId: "user", path: "name.length" },
    },
  });
const checked = defineWorkflow({ id: "checked", input })
  .andMap({
    id: "map",
    retry: { attempts: 3 },
    outputSchema: v.object({ n: v.pipe(v.number(), v.maxValue(3)), attempt: v.optional(v.number()) }),
    map: {
      n: { source: "data", path: "n" },
      attempt: {
        source: "fn",
        fn: ({ attempt }) => {
          if (attempt < 3) throw new Error("not yet");
          return attempt;
        },
      },
    },
  })
  .andForEach({
    id: "each",
    items: ({ data }) => [data.n, data.n + 1],
    steps: [
      andThen({ id: "twice", execute: ({ data }: StepContext<number>) => data * 2 }),
      andMap({ id: "inner", map: { twice: { source: "step", stepId: "twice" }, n: { source: "input", path: "n" } } }),
    ],
  });
const workflows = [doWhile, doUntil, endless, exact, many, nested, subs, branches, broken, maps, checked];

let count = 0;
const newId = (): string => `d${++count}`;
async function execute(server: TestServer, id: string, n: number | object, context?: object) {
  const executionId = newId();
  const json = { input: typeof n === "number" ? { n } : n, options: { executionId, ...(context && { context }) } };
  const { status, body } = await server.post(`/workflows/${id}/execute`, json);
  const logged = server.logs.find(({ data }) => data?.["executionId"] === executionId)?.data?.["error"];
  const path = `/workflows/${id}/executions/${executionId}`;
  return { path, status, data: body.data, error: logged instanceof Error ? logged.message : undefined };
}
async function eventsOf(server: TestServer, path: string): Promise<string[]> {
  const { events } = await server.get(`${path}/stream`);
  return events.filter(({ type }) => type.startsWith("step-")).map(({ type, from }) => `${type.slice(5)} ${from}`);
}

describeInProcess("andDoWhile and andDoUntil", { workflows }, (server) => {
  it("runs the step of andDoWhile and andDoUntil first, and again while the condition says so", async () => {
    const { path, data } = await execute(server, "while", 1);
    expect(data.result).toEqual({ n: 3 });
    expect(ran).toEqual(["loop/0/inc", "loop/0?", "loop/1/inc", "loop/1?"]);
    const iteration = (n: number) => [`start loop/${n}/inc`, `complete loop/${n}/inc`];
    expect(await eventsOf(server, path)).toEqual(["start loop", ...iteration(0), ...iteration(1), "complete loop"]);
    expect((await execute(server, "while", 7)).data.result).toEqual({ n: 8 });
  });

  it("suspends and retries inside an iteration, and continues there", async () => {
    const { path, data } = await execute(server, "until", 0);
    expect(data).toMatchObject({ status: "suspended", suspension: { stepId: "loop/2/ask", reason: "how many?" } });
    const resume = (resumeData: unknown, stepId?: string) =>
      server.post(`${path}/resume`, { resumeData, ...(stepId && { options: { stepId } }) });
    expect((await resume({ add: "x" })).status).toBe(400);
    const second = await resume({ add: 0 }, "loop/2/ask");
    expect(second.body.data).toMatchObject({ status: "completed", result: [{ n: 5 }, { n: 1 }, null] });
    expect(ran.filter((one) => one.startsWith("loop/1/"))).toEqual(["loop/1/inc", "loop/1/ask", "loop/1/ask"]);
    expect(ran.filter((one) => one.startsWith("condition"))).toEqual(
      [1, 2, 3, 4, 5].map((n) => `condition {"n":${n}}`), // of the same iteration
    );
  });

  it("continues in the iteration that failed when the execution is retried", async () => {
    isBroken = true;
    const { path, status } = await execute(server, "until", 3);
    expect(status).toBe(500);
    isBroken = false;
    ran = [];
    const { body } = await server.post(`${path}/retry`, {});
    expect(body.data.result[0]).toEqual({ n: 5 });
    expect(ran).toEqual(["loop/0/ask", 'condition {"n":4}', "loop/1/inc", "loop/1/ask", 'condition {"n":5}']);
  });

  it("fails a loop that would continue after maxIterations, and not before", async () => {
    const { status, error } = await execute(server, "endless", 0);
    expect([status, error]).toEqual([500, "Loop loop ended after 4 iterations"]);
    expect(ran).toEqual([0, 1, 2, 3].map((n) => `loop/${n}/inc`));
    expect((await execute(server, "exact", 0)).data.result).toEqual({ n: 4 });
    expect((await execute(server, "exact", 1)).data.result).toEqual({ n: 4 });
    expect((await execute(server, "exact", 5)).error).toBe("Loop loop ended after 4 iterations");
  });

  it("runs loops often, in each other, and in sub-workflows in loops", async () => {
    expect((await execute(server, "many", 0)).data.result).toEqual({ n: 1_000 });
    expect((await execute(server, "nested", 1)).data.result).toEqual({ n: 4 });
    expect(ran).toEqual(["outer/0/inner/0/inc", "outer/1/inner/0/inc", "outer/1/inner/1/inc"]);
    ran = [];
    expect((await execute(server, "subs", 1)).data.result).toEqual([{ n: 3 }, { n: 3 }]);
    expect(ran.filter((one) => !one.endsWith("?"))).toEqual([
      "each/0/sub/loop/0/inc",
      "each/0/sub/loop/1/inc",
      "each/1/sub/loop/0/inc",
    ]);
  });
});

describeInProcess("andBranch", { workflows }, (server) => {
  const conditions = ["branch?1", "branch?2", "branch?3"];

  it("runs the branches of andBranch whose condition is true, once all conditions are known", async () => {
    expect((await execute(server, "branches", 2)).data.result).toEqual(["1: 2", "2: 2", null]);
    expect(ran.slice(0, 3).toSorted()).toEqual(conditions);
    expect(ran.slice(3).toSorted()).toEqual(["b1", "b2"]);
    expect((await execute(server, "branches", 0)).data.result).toEqual([null, null, null]);
    const { path, data } = await execute(server, "branches", 3);
    expect(data.result).toEqual(["1: 3", "2: 3", "3: 3"]);
    expect((await eventsOf(server, path)).toSorted()).toEqual(
      ["b1", "b2", "b3", "branch"].flatMap((id) => [`complete ${id}`, `start ${id}`]).toSorted(),
    );
  });

  it("waits for a suspended branch of andBranch, and keeps what the conditions were", async () => {
    const { path, data } = await execute(server, "branches", 9);
    expect(data).toMatchObject({ status: "suspended", suspension: { stepId: "b2" } });
    ran = [];
    const { body } = await server.post(`${path}/resume`, { resumeData: 1 });
    expect(body.data.result).toEqual(["1: 9", "2: 9", "3: 9"]);
    expect(ran).toEqual(["b2"]);
  });

  it("fails andBranch with a branch, and retries only that one", async () => {
    isBroken = true;
    const { path, status } = await execute(server, "branches", 2);
    expect(status).toBe(500);
    isBroken = false;
    const isDone = (await eventsOf(server, path)).includes("complete b1");
    ran = [];
    expect((await server.post(`${path}/retry`, {})).body.data.result).toEqual(["1: 2", "2: 2", null]);
    expect(ran.toSorted()).toEqual(isDone ? ["b2"] : ["b1", "b2"]);
  });

  it("runs no branch of andBranch when a condition fails", async () => {
    const { status, error } = await execute(server, "broken", 1);
    expect([status, error, ran]).toEqual([500, "cannot tell", []]);
  });
});

describeInProcess("andMap", { workflows }, (server) => {
  it("makes an object of every source of andMap; a path that leads nowhere gives null", async () => {
    const context = { tenant: "acme", place: { region: "eu" } };
    const { data } = await execute(server, "maps", { order: { id: 7 } }, context);
    expect(data.result).toEqual({
      value: { fixed: [1] },
      data: [{ paid: 1 }, { paid: 2 }],
      part: 2,
      input: 7,
      step: "b",
      whole: { name: "Ann", tags: ["a", "b"], empty: null },
      item: 2,
      noItem: null,
      context: "acme",
      region: "eu",
      fn: [2, true],
      nowhere: null,
      beyondNull: null,
      proto: null,
      inherited: null,
      length: null,
    });
  });

  it("retries and checks andMap like a step, which reads in an item what that has made", async () => {
    expect((await execute(server, "checked", 3)).data.result).toEqual([
      { twice: 6, n: 3 },
      { twice: 8, n: 3 },
    ]);
    expect((await execute(server, "checked", 4)).status).toBe(500);
  });
});
