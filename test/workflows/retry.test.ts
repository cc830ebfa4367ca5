import * as v from "valibot";
import { andAll, andRace, andThen, andWorkflow, defineWorkflow } from "agentserve";
import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { describeInProcess } from "../harness/server.ts";

/** The steps that ran, in order, by execution: `<step>:<attempt>`. */
const ran = new Map<string, string[]>();
const runsOf = (execution: string): string[] => ran.get(execution) ?? [];
/** The steps that fail now: `<execution>/<step>`. */
const failing = new Set<string>();
const keys = new Map<string, Set<string>>();

interface Context {
  executionId: string;
  stepId: string;
  attempt: number;
  idempotencyKey: string;
  data: unknown;
}
/** Notes the run of a step, and fails if the test says so. */
function work<Data>({ executionId, stepId, attempt, idempotencyKey, data }: Context & { data: Data }): Data {
  ran.set(executionId, [...runsOf(executionId), `${stepId}:${attempt}`]);
  const place = `${executionId}/${stepId}`;
  keys.set(place, (keys.get(place) ?? new Set()).add(idempotencyKey));
  if (failing.has(place)) throw new Error(`${stepId} is broken`);
  return data;
}

const chain = defineWorkflow({ id: "chain", input: v.object({ n: v.number() }) })
  .andThen({ id: "one", execute: work })
  .andThen({ id: "two", retry: { attempts: 2 }, execute: work })
  .andThen({ id: "three", execute: work });

const wait = Promise.withResolvers<never>();
const all = defineWorkflow({ id: "all" }).andAll({
  id: "both",
  steps: [
    andThen({ id: "done", execute: work }),
    andThen({
      id: "slow",
      execute: (context) => {
        work(context);
        return failing.has(`${context.executionId}/broken`) ? wait.promise : 1;
      },
    }),
    andThen({
      id: "broken",
      execute: async (context) => {
        // After the others have started, so that one is recorded and the other is aborted.
        while (runsOf(context.executionId).length < 2) await turn();
        return work(context);
      },
    }),
  ],
});
const race = defineWorkflow({ id: "race" }).andRace({
  id: "any",
  steps: [andThen({ id: "left", execute: work }), andThen({ id: "right", execute: work })],
});
const inner = defineWorkflow({ id: "inner", input: v.object({ n: v.number() }) })
  .andThen({ id: "first", execute: work })
  .andThen({ id: "second", execute: work });
const nested = defineWorkflow({ id: "nested", input: v.object({ n: v.number() }) })
  .andAll({
    id: "fan",
    steps: [
      andWorkflow({ id: "sub", workflow: inner }),
      andRace({ id: "any", steps: [andThen({ id: "left", execute: work }), andThen({ id: "right", execute: work })] }),
      andAll({ id: "deep", steps: [andThen({ id: "leaf", execute: work })] }),
    ],
  })
  .andThen({ id: "last", execute: work });
const asks = defineWorkflow({ id: "asks", resumeSchema: v.object({ ok: v.boolean() }) }).andThen({
  id: "ask",
  execute: async (context) => {
    work(context);
    const answer = context.resumeData ?? (await context.suspend("ok?"));
    failing.delete(`${context.executionId}/ask`);
    return answer;
  },
});
const checked = defineWorkflow({ id: "checked", result: v.object({ n: v.pipe(v.number(), v.maxValue(1)) }) }).andThen({
  id: "make",
  execute: (context) => ({ n: runsOf(work(context) === context.data ? context.executionId : "").length }),
});

const workflows = [chain, all, race, nested, asks, checked];

describeInProcess("POST /workflows/:id/executions/:executionId/retry", { workflows }, (server) => {
  let count = 0;
  const newName = (): string => `retry-${++count}`;
  /** Starts an execution of which these steps fail. */
  async function fail(workflow: string, ...steps: string[]): Promise<string> {
    const id = newName();
    for (const step of steps) failing.add(`${id}/${step}`);
    const options = { executionId: id };
    expect((await server.post(`/workflows/${workflow}/execute`, { input: { n: 1 }, options })).status).toBe(500);
    return id;
  }
  const mend = (id: string, ...steps: string[]): void => steps.forEach((step) => failing.delete(`${id}/${step}`));
  const retry = (workflow: string, id: string) => server.post(`/workflows/${workflow}/executions/${id}/retry`);
  const stateOf = async (workflow: string, id: string) =>
    (await server.get(`/workflows/${workflow}/executions/${id}/state`)).body.data;

  it("retries the step that failed at attempt 1, with the same idempotency key", async () => {
    const id = await fail("chain", "two");
    expect(await stateOf("chain", id)).toMatchObject({ status: "error", endAt: expect.any(String) });
    mend(id, "two");
    const response = await retry("chain", id);
    expect(response.headers.get("x-execution-id")).toBe(id);
    expect(response).toMatchObject({
      status: 200,
      body: { success: true, data: { executionId: id, status: "completed", result: { n: 1 } } },
    });
    expect(runsOf(id)).toEqual(["one:1", "two:1", "two:2", "two:1", "three:1"]);
    expect(keys.get(`${id}/two`)!.size).toBe(1);
  });

  it("gives a retried step its whole retry budget again, any number of times", async () => {
    const id = await fail("chain", "two");
    expect((await retry("chain", id)).status).toBe(500);
    expect((await retry("chain", id)).status).toBe(500);
    mend(id, "two");
    expect((await retry("chain", id)).status).toBe(200);
    expect(runsOf(id)).toEqual(["one:1", ..."121212".split("").map((n) => `two:${n}`), "two:1", "three:1"]);
  });

  it("retries only the failed and aborted branches of andAll", async () => {
    const id = await fail("all", "broken");
    mend(id, "broken");
    expect((await retry("all", id)).body.data).toMatchObject({ status: "completed" });
    expect(runsOf(id).filter((one) => one === "done:1")).toHaveLength(1);
    expect(runsOf(id).filter((one) => one === "slow:1")).toHaveLength(2);
    expect(runsOf(id).filter((one) => one === "broken:1")).toHaveLength(2);
  });

  it("retries all branches of an andRace that all have failed", async () => {
    const id = await fail("race", "left", "right");
    expect((await retry("race", id)).status).toBe(500); // not before both have failed again
    expect(runsOf(id).toSorted()).toEqual(["left:1", "left:1", "right:1", "right:1"]);
    mend(id, "right");
    expect((await retry("race", id)).status).toBe(200);
  });

  it("retries a failed step in a sub-workflow, in a race and in nested branches", async () => {
    for (const broken of [["sub/second"], ["left", "right"], ["leaf"], ["last"]]) {
      const id = await fail("nested", ...broken);
      mend(id, ...broken);
      expect((await retry("nested", id)).status, broken.join()).toBe(200);
      const { result } = await stateOf("nested", id);
      expect(result).toEqual([{ n: 1 }, { n: 1 }, [{ n: 1 }]]);
      // The loser of a race may not have started again.
      const counts = broken.map((step) => runsOf(id).filter((one) => one === `${step}:1`).length);
      expect(Math.max(...counts), broken.join()).toBe(2);
    }
  });

  it("gives a resumed step its resume data again at a retry", async () => {
    const id = newName();
    await server.post("/workflows/asks/execute", { input: {}, options: { executionId: id } });
    failing.add(`${id}/ask`);
    const resume = await server.post(`/workflows/asks/executions/${id}/resume`, { resumeData: { ok: true } });
    expect(resume.status).toBe(500);
    mend(id, "ask");
    expect((await retry("asks", id)).body.data).toMatchObject({ status: "completed", result: { ok: true } });
  });

  it("checks the result schema again at a retry, and runs no step", async () => {
    const id = newName();
    ran.set(id, ["before"]);
    const options = { executionId: id };
    expect((await server.post("/workflows/checked/execute", { input: {}, options })).status).toBe(500);
    expect((await retry("checked", id)).status).toBe(500);
    expect(runsOf(id)).toEqual(["before", "make:1"]);
  });

  it("shows no end while a retry runs, and keeps its events in one sequence", async () => {
    const id = await fail("chain", "two");
    mend(id, "two");
    await retry("chain", id);
    const { events } = await server.get(`/workflows/chain/executions/${id}/stream`);
    const stored = events.filter((event) => event.type !== "workflow-result");
    expect(stored.map((event) => event.seq)).toEqual(stored.map((_, index) => index + 1));
    expect(stored.map((event) => event.type)).toEqual([
      "workflow-start",
      "step-start", // one
      "step-complete",
      "step-start", // two
      "workflow-error",
      "step-complete",
      "step-start", // three
      "step-complete",
      "workflow-complete",
    ]);
  });

  it("answers a retry with respond-async at once with 202", async () => {
    const id = await fail("chain", "one");
    mend(id, "one");
    const headers = { prefer: "respond-async" };
    const response = await server.request(`/workflows/chain/executions/${id}/retry`, { method: "POST", headers });
    expect(response).toMatchObject({ status: 202, body: { data: { executionId: id, status: "running" } } });
    await expect.poll(async () => (await stateOf("chain", id)).status).toBe("completed");
  });

  it("refuses a retry of an execution that has not failed with 409", async () => {
    const done = newName();
    await server.post("/workflows/chain/execute", { input: { n: 1 }, options: { executionId: done } });
    const cancelled = newName();
    await server.post("/workflows/asks/execute", { input: {}, options: { executionId: cancelled } });
    const suspended = newName();
    await server.post("/workflows/asks/execute", { input: {}, options: { executionId: suspended } });
    await server.post(`/workflows/asks/executions/${cancelled}/cancel`, {});
    for (const [workflow, id] of [
      ["chain", done],
      ["asks", cancelled],
      ["asks", suspended],
    ] as const) {
      expect(await retry(workflow, id)).toMatchObject({
        status: 409,
        body: { success: false, error: `Execution ${id} has not failed` },
      });
    }
    expect((await retry("chain", "unknown")).status).toBe(404);
  });

  it("accepts one of two simultaneous retries", async () => {
    for (let index = 0; index < 10; index++) {
      const id = await fail("chain", "three");
      mend(id, "three");
      const answers = await Promise.all([retry("chain", id), retry("chain", id)]);
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
      expect(runsOf(id).filter((one) => one === "three:1")).toHaveLength(2);
    }
  });
});
