import { andForEach, andSleep, andThen, andWaitFor, andWorkflow, defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { createGates } from "../../harness/gates.ts";
import { describeInProcess } from "../../harness/server.ts";
import { createCalls, failing, toLine, toRow, trusting, work } from "./world.ts";

const gates = createGates();
const working = (id: string) => andThen({ id, execute: work });

const two = defineWorkflow({ id: "two" })
  .andThen({ id: "first", execute: work })
  .andThen({ id: "second", execute: work });
const each = defineWorkflow({ id: "each" })
  .andForEach({
    id: "each",
    items: () => ["a", "b"],
    map: (_, item, index) => `${item}${index}`,
    step: andWorkflow({ id: "sub", workflow: two as never /* without a check of its input, it takes a text */ }),
  })
  .andThen({ id: "after", execute: ({ data }) => (data as unknown[]).length });

const nested = defineWorkflow({ id: "nested" }).andForEach({
  id: "outer",
  items: () => [
    ["a", "b"],
    ["c", "d"],
  ],
  step: andForEach({ id: "inner", step: working("leaf") as never /* `data` is one of the arrays */ }),
});

const collects = defineWorkflow({ id: "collects" }).andForEach({
  id: "each",
  items: () => [1, 2, 3],
  onError: "collect",
  step: working("pay"),
});

const fails = defineWorkflow({ id: "fails" }).andForEach({
  id: "each",
  items: () => [1, 2, 3, 4],
  step: working("pay"),
});

const counts = defineWorkflow({ id: "counts" })
  .andThen({ id: "zero", execute: () => 0 })
  .andDoWhile({
    id: "loop",
    step: andThen({ id: "add", execute: ({ data }) => (data as number) + 1 }),
    condition: ({ data }) => (data as number) < 3,
  })
  .andBranch({
    id: "branch",
    branches: [
      { condition: () => true, step: andThen({ id: "yes", execute: () => "yes" }) },
      { condition: () => false, step: andThen({ id: "no", execute: () => "no" }) },
    ],
  })
  .andMap({ id: "map", map: { all: { source: "data" }, one: { source: "value", value: 1 } } });

const waits = defineWorkflow({ id: "waits" })
  .andAll({
    id: "all",
    steps: [
      andSleep({ id: "nap", duration: "2d", skippable: true }),
      andWaitFor({ id: "paid", event: "paid", key: ({ executionId }) => executionId, timeout: "1d" }),
      andThen({
        id: "ask",
        execute: ({ resumeData, suspend }) => resumeData ?? suspend("ok?", undefined, { timeout: "1h" }),
      }),
      andThen({ id: "busy", execute: async (context) => (await gates.pass(context.executionId), "done") }),
    ],
  })
  .andThen({ id: "end", execute: ({ data }) => data });

const many = defineWorkflow({ id: "many" }).andForEach({
  id: "each",
  items: () => Array.from({ length: 150 }, (_, index) => index),
  concurrency: Infinity,
  step: andThen({
    id: "ask",
    execute: ({ data, suspend, resumeData }) => resumeData ?? suspend(`ok ${String(data)}?`),
  }),
});

const slow = defineWorkflow({ id: "slow" }).andForEach({
  id: "each",
  items: () => ["a", "b", "c"],
  concurrency: 2,
  map: async ({ executionId }, item) => (await gates.pass(executionId), item),
  step: working("pay"),
});

const flaky = defineWorkflow({ id: "flaky" }).andForEach({
  id: "each",
  items: () => ["a"],
  step: andThen({ id: "pay", retry: { attempts: 2, delay: 60_000, jitter: 0.5 }, execute: work }),
});

const workflows = [each, nested, collects, fails, counts, waits, many, slow, flaky];

describeInProcess("loops, branches and waits in GET …/steps", { workflows, auth: trusting }, (server) => {
  let count = 0;
  const calls = (workflow: string) => createCalls(server, workflow, `loops-${++count}`);
  const idOf = ({ path }: { path: string }): string => path.slice(path.lastIndexOf("/") + 1);

  it("shows a loop with the count of its items, and the items with what they contain under it", async () => {
    const one = calls("each");
    expect((await one.execute()).status).toBe(200);
    const result = ["each/0/sub/second(each/0/sub/first(a0))", "each/1/sub/second(each/1/sub/first(b1))"];
    const steps = await one.steps();
    expect(steps.map(toRow)).toEqual([
      ["each andForEach success [1]", {}, result],
      ["after andThen success [1]", result, 2],
    ]);
    expect(steps[0]!.count).toEqual({ total: 2, success: 2 });
    expect(steps[1]).not.toHaveProperty("count");
    const items = await one.steps("?under=each");
    expect(items.map(toRow)).toEqual(
      ["a", "b"].flatMap((item, index) => [
        [`each/${index} item success in each [1]`, item, result[index]],
        [`each/${index}/sub andWorkflow success in each/${index} []`, `${item}${index}`, result[index]],
        [
          `each/${index}/sub/first andThen success in each/${index}/sub [1]`,
          `${item}${index}`,
          `each/${index}/sub/first(${item}${index})`,
        ],
        [
          `each/${index}/sub/second andThen success in each/${index}/sub [1]`,
          `each/${index}/sub/first(${item}${index})`,
          result[index],
        ],
      ]),
    );
    expect(items.map(({ stepId }) => stepId).slice(0, 3)).toEqual(["0", "sub", "first"]);
    expect((await one.steps("?under=each/1")).map(({ path }) => path)).toEqual([
      "each/1/sub",
      "each/1/sub/first",
      "each/1/sub/second",
    ]);
    expect((await one.steps("?path=each/1/sub/first")).map(({ path }) => path)).toEqual(["each/1/sub/first"]);
    for (const none of ["?under=after", "?under=no", "?under=each/7", "?path=each/7"])
      expect(await one.steps(none), none).toEqual([]);
  });

  it("shows a loop in a loop under the item that contains it", async () => {
    const one = calls("nested");
    await one.execute();
    expect((await one.steps()).map(toLine)).toEqual(["outer andForEach success [1]"]);
    const outer = await one.steps("?under=outer");
    expect(outer.map(toLine)).toEqual([
      "outer/0 item success in outer []",
      "outer/0/inner andForEach success in outer/0 [1]",
      "outer/1 item success in outer []",
      "outer/1/inner andForEach success in outer/1 [1]",
    ]);
    expect(outer[3]!.count).toEqual({ total: 2, success: 2 });
    expect((await one.steps("?under=outer/1/inner")).map(toRow)).toEqual([
      ["outer/1/inner/0 item success in outer/1/inner []", "c", "outer/1/inner/0/leaf(c)"],
      ["outer/1/inner/0/leaf andThen success in outer/1/inner/0 [1]", "c", "outer/1/inner/0/leaf(c)"],
      ["outer/1/inner/1 item success in outer/1/inner []", "d", "outer/1/inner/1/leaf(d)"],
      ["outer/1/inner/1/leaf andThen success in outer/1/inner/1 [1]", "d", "outer/1/inner/1/leaf(d)"],
    ]);
  });

  it("shows the item that failed in a loop that collects failures, and finds it by its status", async () => {
    const one = calls("collects");
    failing.add(`${idOf(one)}/each/1/pay`);
    expect((await one.execute()).status).toBe(200);
    const [loop] = await one.steps();
    expect(toLine(loop!)).toBe("each andForEach success [1]");
    expect(loop!.count).toEqual({ total: 3, success: 2, error: 1 });
    expect(loop!.output).toEqual([
      { status: "success", value: "each/0/pay(input)" },
      { status: "error", error: "each/1/pay is broken" },
      { status: "success", value: "each/2/pay(input)" },
    ]);
    expect((await one.steps("?status=error")).map(toRow)).toEqual([
      ["each/1 item error in each []", 2, undefined],
      ["each/1/pay andThen error in each/1 [1!]", 2, undefined],
    ]);
  });

  it("shows the item that fails a loop, and its attempts after a retry of the execution", async () => {
    const one = calls("fails");
    failing.add(`${idOf(one)}/each/1/pay`);
    expect((await one.execute()).status).toBe(500);
    const [loop] = await one.steps();
    expect(toLine(loop!)).toBe("each andForEach error [1]");
    expect(loop!.count).toEqual({ total: 4, success: 1, error: 1 });
    failing.clear();
    expect((await one.post("retry")).status).toBe(200);
    expect((await one.steps())[0]!.count).toEqual({ total: 4, success: 4 });
    expect((await one.steps("?under=each/1")).map(toLine)).toEqual(["each/1/pay andThen success in each/1 [1! 1]"]);
  });

  it("shows iterations with their conditions, the branches that run, and maps", async () => {
    const one = calls("counts");
    await one.execute();
    const steps = await one.steps();
    expect(steps.map(toRow)).toEqual([
      ["zero andThen success [1]", {}, 0],
      ["loop andDoWhile success []", 0, 3],
      ["branch andBranch success [1 1]", 3, ["yes", null]],
      ["yes andThen success in branch [1]", 3, "yes"],
      ["map andMap success [1]", ["yes", null], { all: ["yes", null], one: 1 }],
    ]);
    expect(steps[1]!.count).toEqual({ total: 3, success: 3 });
    expect((await one.steps("?under=loop")).map(toRow)).toEqual(
      [0, 1, 2].flatMap((index) => [
        [`loop/${index} iteration success in loop [1]`, index, index + 1],
        [`loop/${index}/add andThen success in loop/${index} [1]`, index, index + 1],
      ]),
    );
  });

  it("shows sleeps and waits as waiting while another branch runs, and as suspended when none does", async () => {
    const one = calls("waits");
    const id = idOf(one);
    const executed = one.execute();
    await expect
      .poll(async () => (await one.steps()).map(toLine))
      .toEqual([
        "all andAll running []",
        "nap andSleep waiting in all [1]",
        "paid andWaitFor waiting in all [1]",
        "ask andThen suspended in all [1]",
        "busy andThen running in all [1…]",
      ]);
    gates.open(id);
    await executed;
    const [all, nap, paid, ask] = await one.steps("?status=suspended");
    expect([all, nap, paid, ask].map((found) => found!.path)).toEqual(["all", "nap", "paid", "ask"]);
    const { suspendedAt } = nap!.suspension!;
    const after = (ms: number, from: string): string => new Date(Date.parse(from) + ms).toISOString();
    const day = 86_400_000;
    expect(nap!.suspension).toEqual({
      suspendedAt: nap!.attempts[0]!.endAt,
      kind: "timer",
      reason: `Sleeping until ${after(2 * day, suspendedAt)}`,
      wakeAt: after(2 * day, suspendedAt),
    });
    expect(paid!.suspension).toEqual({
      suspendedAt: expect.any(String),
      kind: "event",
      reason: "Waiting for event paid",
      deadline: after(day, paid!.suspension!.suspendedAt),
      event: "paid",
      key: id,
    });
    expect(ask!.suspension).toMatchObject({
      kind: "person",
      deadline: after(3_600_000, ask!.suspension!.suspendedAt),
    });
    expect(all).not.toHaveProperty("suspension");
    // `state` has the same times.
    const { pending } = (await server.get(`${one.path}/state`)).body.data.suspension;
    const times = Object.fromEntries(pending.map((found: any) => [found.stepId, found.wakeAt ?? found.deadline]));
    expect(times).toEqual({
      nap: nap!.suspension!.wakeAt,
      paid: paid!.suspension!.deadline,
      ask: ask!.suspension!.deadline,
    });
    await one.post("resume", { resumeData: "yes" });
    await server.post(
      "/events",
      { name: "paid", key: id, data: { n: 1 } },
      { headers: { authorization: "Bearer ada" } },
    );
    await expect
      .poll(async () => (await one.steps("?status=suspended")).map(({ path }) => path))
      .toEqual(["all", "nap"]);
    await one.post("resume", { options: { stepId: "nap" } });
    expect((await one.steps()).map(toRow)).toEqual([
      ["all andAll success []", {}, [{}, { n: 1 }, "yes", "done"]],
      ["nap andSleep success in all [1]", {}, {}],
      ["paid andWaitFor success in all [1]", {}, { n: 1 }],
      ["ask andThen success in all [1 1]", {}, "yes"],
      ["busy andThen success in all [1]", {}, "done"],
      ["end andThen success [1]", [{}, { n: 1 }, "yes", "done"], [{}, { n: 1 }, "yes", "done"]],
    ]);
  });

  it("lists every branch that waits, page by page, also those that the suspension does not list", async () => {
    const one = calls("many");
    const { suspension } = (await one.execute()).body.data;
    expect([suspension.pending.length, suspension.pendingCount]).toEqual([100, 150]);
    const found: string[] = [];
    let pages = 0;
    for (let cursor: string | null = ""; cursor !== null; pages++) {
      const query: string = `?status=suspended${cursor && `&cursor=${cursor}`}`;
      const { data } = (await server.get(`${one.path}/steps${query}`, { headers: { authorization: "Bearer ada" } }))
        .body;
      for (const { path, suspension: own } of data.items) if (own) found.push(`${path}: ${own.reason}`);
      cursor = data.nextCursor;
    }
    expect(pages).toBe(2); // the loop, 150 items, and a step in each
    expect(found).toEqual(Array.from({ length: 150 }, (_, index) => `each/${index}/ask: ok ${index}?`));
    await one.post("resume", { resumeData: "yes", options: { stepId: "each/7/ask" } });
    expect((await one.steps())[0]!.count).toEqual({ total: 150, suspended: 149, success: 1 });
  });

  it("shows an item that is in its map, and those that have no place yet only in the total", async () => {
    const one = calls("slow");
    const executed = one.execute();
    await gates.reached(idOf(one));
    await expect
      .poll(async () => (await one.steps("?under=each")).map(toLine))
      .toEqual(["each/0 item running in each [1…]", "each/1 item running in each [1…]"]);
    expect((await one.steps())[0]!.count).toEqual({ total: 3, running: 2 });
    gates.open(idOf(one));
    await executed;
    expect((await one.steps())[0]!.count).toEqual({ total: 3, success: 3 });
  });

  it("shows the time of the next attempt in a retry delay", async () => {
    const one = calls("flaky");
    failing.add(`${idOf(one)}/each/0/pay`);
    await one.execute({}, { prefer: "respond-async" });
    await expect.poll(async () => (await one.steps())[0]?.count).toEqual({ total: 1, waiting: 1 });
    const [pay] = await one.steps("?under=each/0");
    expect(toLine(pay!)).toBe("each/0/pay andThen waiting in each/0 [1!]");
    const delay = Date.parse(pay!.nextAttemptAt!) - Date.parse(pay!.attempts[0]!.endAt!);
    expect(delay).toBeGreaterThanOrEqual(30_000);
    expect(delay).toBeLessThan(60_000); // with jitter
    await one.post("cancel");
    expect((await one.steps("?under=each/0"))[0]).not.toHaveProperty("nextAttemptAt");
  });
});
