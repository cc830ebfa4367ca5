import { andAll, andTap, andThen, defineAgent, defineWorkflow } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { chosenBackend } from "../../harness/backends.ts";
import { createGates } from "../../harness/gates.ts";
import { describeInProcess } from "../../harness/server.ts";
import { as, createCalls, failing, toLine, toRow, trusting, work } from "./world.ts";

const gates = createGates();
const never = new Promise<never>(() => {});

const agent = defineAgent({
  id: "helper",
  instructions: "Help.",
  model: scriptedModel(Array.from({ length: 100 }, () => "hello")),
});
const inner = defineWorkflow({
  id: "inner",
  input: v.pipe(
    v.unknown(),
    v.transform(() => "checked"),
  ),
  result: v.pipe(
    v.string(),
    v.transform((text) => `${text}, result`),
  ),
})
  .andThen({ id: "first", execute: work })
  .andThen({ id: "second", execute: work });
const plain = defineWorkflow({ id: "plain" }).andThen({ id: "only", execute: work });

const every = defineWorkflow({ id: "every", input: v.object({ n: v.number() }), authorize: () => true })
  .andThen({ id: "then", execute: work })
  .andTap({ id: "tap", execute: work })
  .andAgent({ id: "agent", agent, prompt: "Hi" })
  .andWhen({ id: "yes", condition: () => true, step: andThen({ id: "inside", execute: work }) })
  .andWhen({ id: "no", condition: () => false, step: andThen({ id: "never", execute: work }) })
  .andAll({ id: "all", steps: [andThen({ id: "a", execute: work }), andTap({ id: "b", execute: work })] })
  .andRace({
    id: "race",
    steps: [andThen({ id: "slow", execute: () => never }), andThen({ id: "quick", execute: work })],
  })
  .andWorkflow({ id: "sub", workflow: inner, map: (result) => `${result}, mapped` })
  .andWorkflow({ id: "bare", workflow: plain as never /* without a check of its input, it takes a text */ });

const chain = defineWorkflow({ id: "chain" })
  .andThen({ id: "one", execute: work })
  .andThen({ id: "two", retry: { attempts: 2 }, execute: work })
  .andThen({ id: "three", execute: work });

const fan = defineWorkflow({ id: "fan" })
  .andAll({
    id: "all",
    steps: [
      andThen({ id: "done", execute: work }),
      andThen({
        id: "slow",
        execute: (context) => (failing.has(`${context.executionId}/bad`) ? never : work(context)),
      }),
      andThen({
        id: "bad",
        async execute(context) {
          await gates.pass(`${context.executionId}/bad`);
          return work(context);
        },
      }),
    ],
  })
  .andThen({ id: "last", execute: work });

const asks = defineWorkflow({ id: "asks" })
  .andThen({ id: "before", execute: work })
  .andThen({
    id: "ask",
    execute: ({ resumeData, suspend }) => resumeData ?? suspend("which one?", { choices: [1, 2] }),
  })
  .andThen({ id: "after", execute: work })
  .andThen({ id: "again", execute: ({ resumeData, suspend }) => resumeData ?? suspend("sure?") });

const waits = defineWorkflow({ id: "waits" })
  .andThen({ id: "gate", execute: async (context) => (await gates.pass(context.executionId), work(context)) })
  .andThen({ id: "next", execute: work });

const both = defineWorkflow({ id: "both" }).andAll({
  id: "all",
  steps: [
    andThen({ id: "asking", execute: ({ resumeData, suspend }) => resumeData ?? suspend("well?") }),
    andThen({ id: "busy", execute: async (context) => (await gates.pass(context.executionId), work(context)) }),
  ],
});

const conditions = defineWorkflow({ id: "conditions" }).andWhen({
  id: "when",
  condition: (context) => work(context) !== "",
  step: andThen({ id: "inside", execute: work }),
});

const races = defineWorkflow({ id: "races" }).andRace({
  id: "race",
  steps: [
    andThen({ id: "left", execute: work }),
    andAll({ id: "deep", steps: [andThen({ id: "x", execute: work }), andThen({ id: "y", execute: () => never })] }),
  ],
});

const long = defineWorkflow({ id: "long" })
  .andAll({
    id: "all",
    steps: [
      andThen({ id: "big", execute: () => "x".repeat(20_000) }),
      andThen({ id: "middle", execute: () => "y".repeat(2_000) }),
    ],
  })
  .andThen({ id: "size", execute: ({ data }) => data.join("").length });

const many = defineWorkflow({ id: "many" }).andAll({
  id: "all",
  steps: Array.from({ length: 450 }, (_, index) => andThen({ id: `s${index}`, execute: () => index })),
});

const workflows = [every, chain, fan, asks, waits, both, conditions, races, long, many, plain];

describeInProcess(
  "GET /workflows/:id/executions/:executionId/steps",
  { workflows, agents: [agent], auth: trusting },
  (server) => {
    let count = 0;
    const calls = (workflow: string) => createCalls(server, workflow, `steps-${++count}`);
    const idOf = ({ path }: { path: string }): string => path.slice(path.lastIndexOf("/") + 1);
    const rowsOf = async (one: ReturnType<typeof calls>) => (await one.steps()).map(toRow);
    const linesOf = async (one: ReturnType<typeof calls>) => (await one.steps()).map(toLine);

    it("shows every type of step, in the order of begin, with its input and output", async () => {
      const one = calls("every");
      expect((await one.execute({ n: 1 })).status).toBe(200);
      const steps = await one.steps();
      expect(steps.map(toRow)).toEqual([
        ["then andThen success [1]", { n: 1 }, "then(input)"],
        ["tap andTap success [1]", "then(input)", "then(input)"],
        ["agent andAgent success [1]", "then(input)", "hello"],
        ["yes andWhen success [1]", "hello", "inside(hello)"],
        ["inside andThen success in yes [1]", "hello", "inside(hello)"],
        ["no andWhen skipped [1]", "inside(hello)", "inside(hello)"],
        ["all andAll success []", "inside(hello)", ["a(inside(hello))", "inside(hello)"]],
        ["a andThen success in all [1]", "inside(hello)", "a(inside(hello))"],
        ["b andTap success in all [1]", "inside(hello)", "inside(hello)"],
        ["race andRace success []", ["a(inside(hello))", "inside(hello)"], "quick(input)"],
        ["slow andThen aborted in race [1]", ["a(inside(hello))", "inside(hello)"], undefined],
        ["quick andThen success in race [1]", ["a(inside(hello))", "inside(hello)"], "quick(input)"],
        // The check of its input, that of its result, and the map.
        ["sub andWorkflow success [1 1 1]", "quick(input)", "sub/second(sub/first(checked)), result, mapped"],
        ["sub/first andThen success in sub [1]", "checked", "sub/first(checked)"],
        ["sub/second andThen success in sub [1]", "sub/first(checked)", "sub/second(sub/first(checked))"],
        [
          "bare andWorkflow success []",
          "sub/second(sub/first(checked)), result, mapped",
          "bare/only(sub/second(sub/first(checked)), result, mapped)",
        ],
        [
          "bare/only andThen success in bare [1]",
          "sub/second(sub/first(checked)), result, mapped",
          "bare/only(sub/second(sub/first(checked)), result, mapped)",
        ],
      ]);
      expect(steps.map(({ stepId }) => stepId).slice(-4)).toEqual(["first", "second", "bare", "only"]);
      const { startAt, endAt } = (await server.get(`${one.path}/state`)).body.data;
      for (const step of steps) {
        const times = [
          startAt,
          step.startAt,
          ...step.attempts.flatMap((attempt) => [attempt.startAt, attempt.endAt!]),
          step.endAt!,
          endAt,
        ];
        expect(times, step.path).toEqual(times.toSorted());
      }
      expect(steps.at(-1)).toEqual({
        path: "bare/only",
        stepId: "only",
        type: "andThen",
        status: "success",
        startAt: expect.any(String),
        endAt: expect.any(String),
        attempts: [{ attempt: 1, startAt: expect.any(String), endAt: expect.any(String) }],
        input: expect.any(String),
        output: expect.any(String),
        parent: "bare",
      });
    });

    it("shows the attempts of a failed step, keeps them after a retry, and adds the new ones", async () => {
      const one = calls("chain");
      failing.add(`${idOf(one)}/two`);
      expect((await one.execute()).status).toBe(500);
      const failed = await one.steps();
      expect(failed.map(toRow)).toEqual([
        ["one andThen success [1]", {}, "one(input)"],
        ["two andThen error [1! 2!]", "one(input)", undefined],
      ]);
      const shown = "Failed to execute workflow"; // in dev the message itself: redact.test.ts
      expect(failed[1]!.attempts.map(({ error }) => error)).toEqual([shown, shown]);
      failing.delete(`${idOf(one)}/two`);
      expect((await one.post("retry")).status).toBe(200);
      expect(await rowsOf(one)).toEqual([
        ["one andThen success [1]", {}, "one(input)"],
        ["two andThen success [1! 2! 1]", "one(input)", "two(one(input))"],
        ["three andThen success [1]", "two(one(input))", "three(two(one(input)))"],
      ]);
    });

    it("shows a branch that failed as an error, the others as aborted, and runs both again at a retry", async () => {
      const one = calls("fan");
      const id = idOf(one);
      failing.add(`${id}/bad`);
      const executed = one.execute();
      await gates.reached(`${id}/bad`);
      await expect.poll(async () => (await one.steps("?status=success")).map(({ path }) => path)).toEqual(["done"]);
      expect(await linesOf(one)).toEqual([
        "all andAll running []",
        "done andThen success in all [1]",
        "slow andThen running in all [1…]",
        "bad andThen running in all [1…]",
      ]);
      gates.open(`${id}/bad`);
      expect((await executed).status).toBe(500);
      const failed = await one.steps();
      expect(failed.map(toLine)).toEqual([
        "all andAll error []",
        "done andThen success in all [1]",
        "slow andThen aborted in all [1]",
        "bad andThen error in all [1!]",
      ]);
      const { endAt } = (await server.get(`${one.path}/state`)).body.data;
      expect(failed.map((step) => step.endAt === endAt)).toEqual([true, failed[1]!.endAt === endAt, true, true]);
      failing.delete(`${id}/bad`);
      expect((await one.post("retry")).status).toBe(200);
      expect(await rowsOf(one)).toEqual([
        ["all andAll success []", {}, ["done(input)", "slow(input)", "bad(input)"]],
        ["done andThen success in all [1]", {}, "done(input)"],
        ["slow andThen success in all [1 1]", {}, "slow(input)"],
        ["bad andThen success in all [1! 1]", {}, "bad(input)"],
        ["last andThen success [1]", ["done(input)", "slow(input)", "bad(input)"], "last(input)"],
      ]);
    });

    it("shows a suspension until the resume, and a second attempt after it", async () => {
      const one = calls("asks");
      await one.execute();
      const [before, ask] = await one.steps();
      expect([toLine(before!), toLine(ask!)]).toEqual(["before andThen success [1]", "ask andThen suspended [1]"]);
      expect(ask!.suspension).toEqual({
        suspendedAt: ask!.attempts[0]!.endAt,
        kind: "person",
        reason: "which one?",
        data: { choices: [1, 2] },
      });
      expect((await one.steps("?status=suspended")).map(({ path }) => path)).toEqual(["ask"]);
      await one.post("resume", { resumeData: 2 });
      const resumed = await one.steps();
      expect(resumed.map(toRow)).toEqual([
        ["before andThen success [1]", {}, "before(input)"],
        ["ask andThen success [1 1]", "before(input)", 2],
        ["after andThen success [1]", 2, "after(input)"],
        ["again andThen suspended [1]", "after(input)", undefined],
      ]);
      expect(resumed[1]).not.toHaveProperty("suspension");
      const attempts = resumed[1]!.attempts;
      expect(attempts[1]!.startAt >= attempts[0]!.endAt!).toBe(true);
    });

    it("shows the last run of a step after a resume to an earlier one, and later steps as they were", async () => {
      const one = calls("asks");
      await one.execute();
      await one.post("resume", { resumeData: 2 });
      await one.post("resume", { options: { stepId: "ask" } }); // asks again
      expect(await rowsOf(one)).toEqual([
        ["before andThen success [1]", {}, "before(input)"],
        ["after andThen success [1]", 2, "after(input)"],
        ["again andThen aborted [1]", "after(input)", undefined],
        ["ask andThen suspended [1]", "before(input)", undefined],
      ]);
      await one.post("resume", { resumeData: 3 });
      await one.post("resume", { resumeData: "yes" });
      expect(await rowsOf(one)).toEqual([
        ["before andThen success [1]", {}, "before(input)"],
        ["ask andThen success [1 1]", "before(input)", 3],
        ["after andThen success [1]", 3, "after(input)"],
        ["again andThen success [1 1]", "after(input)", "yes"],
      ]);
    });

    it("shows a parked branch as suspended while another one runs, and the step around them as running", async () => {
      const one = calls("both");
      const executed = one.execute();
      await gates.reached(idOf(one));
      await expect
        .poll(() => linesOf(one))
        .toEqual(["all andAll running []", "asking andThen suspended in all [1]", "busy andThen running in all [1…]"]);
      gates.open(idOf(one));
      await executed;
      expect(await linesOf(one)).toEqual([
        "all andAll suspended []",
        "asking andThen suspended in all [1]",
        "busy andThen success in all [1]",
      ]);
    });

    it("shows steps of an execution that was suspended by request as waiting, and goes on after the resume", async () => {
      const one = calls("waits");
      const executed = one.execute({}, { prefer: "respond-async" });
      await gates.reached(idOf(one));
      await executed;
      expect((await one.post("suspend", { reason: "later" })).status).toBe(200);
      expect(await linesOf(one)).toEqual(["gate andThen waiting [1…]"]);
      gates.open(idOf(one));
      await expect.poll(() => linesOf(one)).toEqual(["gate andThen waiting [1]"]);
      expect((await one.post("resume")).status).toBe(200);
      expect(await rowsOf(one)).toEqual([
        ["gate andThen success [1]", {}, "gate(input)"],
        ["next andThen success [1]", "gate(input)", "next(gate(input))"],
      ]);
    });

    it("shows the steps in flight of a cancelled execution as aborted at the time of the cancel", async () => {
      const one = calls("both");
      await one.execute({}, { prefer: "respond-async" });
      await gates.reached(idOf(one));
      await expect.poll(() => linesOf(one)).toContain("asking andThen suspended in all [1]");
      expect((await one.post("cancel", { reason: "enough" })).status).toBe(200);
      const steps = await one.steps();
      expect(steps.map(toLine)).toEqual([
        "all andAll aborted []",
        "asking andThen aborted in all [1]",
        "busy andThen aborted in all [1]",
      ]);
      const { cancellation } = (await server.get(`${one.path}/state`)).body.data;
      expect(steps.map(({ endAt }) => endAt)).toEqual(Array.from({ length: 3 }, () => cancellation.cancelledAt));
      gates.open(idOf(one));
    });

    it("shows a condition that fails as an error of its step", async () => {
      const one = calls("conditions");
      failing.add(`${idOf(one)}/when`);
      await one.execute();
      expect(await linesOf(one)).toEqual(["when andWhen error [1!]"]);
      failing.delete(`${idOf(one)}/when`);
      await one.post("retry");
      expect(await linesOf(one)).toEqual(["when andWhen success [1! 1]", "inside andThen success in when [1]"]);
    });

    it("shows every branch of a race that all have lost, and the steps that they aborted", async () => {
      const one = calls("races");
      for (const step of ["left", "x"]) failing.add(`${idOf(one)}/${step}`);
      expect((await one.execute()).status).toBe(500);
      expect(await linesOf(one)).toEqual([
        "race andRace error []",
        "left andThen error in race [1!]",
        "deep andAll error in race []",
        "x andThen error in deep [1!]",
        "y andThen aborted in deep [1]",
      ]);
      failing.delete(`${idOf(one)}/left`);
      expect((await one.post("retry")).status).toBe(200);
      const lines = await linesOf(one);
      expect(lines.slice(0, 2)).toEqual(["race andRace success []", "left andThen success in race [1! 1]"]);
      expect(lines.slice(2).every((line) => / (error|aborted) in /.test(line))).toBe(true);
    });

    it("shows the steps that a fork has copied as successes, with their outputs", async () => {
      const one = calls("every");
      await one.execute({ n: 1 });
      const original = await one.steps();
      const copy = calls("every");
      const body = { fromStep: "bare", options: { executionId: idOf(copy) } };
      expect((await one.post("fork", body)).status).toBe(200);
      const forked = await copy.steps();
      // The branch that lost the race has no result to copy.
      expect(forked.map(toRow)).toEqual(original.map(toRow));
      const timesOf = (steps: typeof original) => steps.map(({ startAt, endAt }) => [startAt, endAt]);
      // On Restate, the rows of branches that end together need not be in the order of their times.
      if (!chosenBackend.isDistributed) expect(timesOf(forked.slice(0, -2))).toEqual(timesOf(original.slice(0, -2)));
      expect(await one.steps()).toEqual(original);
    });

    it("cuts values over 16 KB with a marker, and gives one step with whole values by its path", async () => {
      const one = calls("long");
      await one.execute();
      const cut = { $truncated: true, bytes: 20_002 };
      const joined = { $truncated: true, bytes: 22_007 };
      expect(await rowsOf(one)).toEqual([
        ["all andAll success []", {}, joined],
        ["big andThen success in all [1]", {}, cut],
        ["middle andThen success in all [1]", {}, "y".repeat(2_000)],
        ["size andThen success [1]", joined, 22_000],
      ]);
      const whole = ["x".repeat(20_000), "y".repeat(2_000)];
      expect((await one.steps("?path=size")).map(toRow)).toEqual([["size andThen success [1]", whole, 22_000]]);
      expect((await one.steps("?path=all")).map(({ output }) => output)).toEqual([whole]);
      expect(await one.steps("?path=none")).toEqual([]);
    });

    it("pages through the steps in the order of begin, each once", async () => {
      const one = calls("many");
      await one.execute();
      const paths: string[] = [];
      const sizes: number[] = [];
      for (let cursor = ""; ;) {
        const { body } = await server.get(`${one.path}/steps${cursor}`, as("ada"));
        sizes.push(body.data.items.length);
        paths.push(...body.data.items.map((step: { path: string }) => step.path));
        if (body.data.nextCursor === null) break;
        cursor = `?cursor=${body.data.nextCursor}`;
      }
      expect(sizes).toEqual([200, 200, 51]);
      expect(paths).toEqual(["all", ...Array.from({ length: 450 }, (_, index) => `s${index}`)]);
      expect(await one.steps("?limit=3&status=success")).toHaveLength(3);
    });

    it("refuses an unknown execution, a wrong query and a caller without a token", async () => {
      const one = calls("chain");
      expect(await server.get(`${one.path}/steps`, as("ada"))).toMatchObject({
        status: 404,
        body: { error: `Execution ${idOf(one)} not found` },
      });
      await one.execute();
      for (const query of ["status=done", "limit=0", "limit=201", "cursor=zzz"])
        expect((await server.get(`${one.path}/steps?${query}`, as("ada"))).status, query).toBe(400);
      expect((await server.get(`${one.path}/steps`)).status).toBe(401);
    });
  },
);
