import * as v from "valibot";
import { andThen, defineWorkflow, type StepContext } from "agentserve";
import { beforeEach, expect, it } from "vitest";
import { chosenBackend } from "../../harness/backends.ts";
import { createGates } from "../../harness/gates.ts";
import { describeInProcess, type TestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";

let gates = createGates();
/** The steps that have begun, in order. */
let began: string[] = [];
beforeEach(() => {
  gates = createGates();
  began = [];
});

const answer = v.object({ ok: v.pipe(v.string(), v.trim(), v.nonEmpty()) });
const ask = (id = "ask") =>
  andThen({
    id,
    resumeSchema: answer,
    execute: ({ data, suspend, resumeData, stepId }: StepContext<string, unknown, unknown, never>) => {
      began.push(resumeData === undefined ? stepId : `${stepId} again`);
      if (!data.startsWith("ask")) return data;
      return resumeData === undefined ? suspend(`${data}?`) : `${data} ${(resumeData as { ok: string }).ok}`;
    },
  });
const pass = (id: string) => andThen({ id, execute: ({ data }: StepContext<string>) => `${data}.` });
const asks = (id: string, concurrency: number) =>
  defineWorkflow({ id, input: v.object({ list: v.array(v.string()) }) }).andForEach({
    id: "each",
    items: ({ data }) => data.list,
    concurrency,
    steps: [ask() as never, pass("end")],
  });
const gated = defineWorkflow({ id: "gated" }).andForEach({
  id: "each",
  items: () => ["a", "b", "c", "d"],
  concurrency: 2,
  step: andThen({
    id: "work",
    execute: async ({ data, stepId, executionId, signal }: StepContext<string>) => {
      began.push(stepId);
      signal.addEventListener("abort", () => began.push(`${stepId} aborted`));
      await gates.pass(`${executionId} ${data}`);
      return data;
    },
  }),
});
let isBroken = true;
const flaky = defineWorkflow({ id: "flaky" })
  .andForEach({
    id: "each",
    items: () => {
      began.push("items");
      return [1, 2, 3, 4];
    },
    map: (_context, item, index) => {
      began.push(`map ${index}`);
      return item;
    },
    steps: [
      andThen({
        id: "work",
        execute: ({ data, stepId }: StepContext<number>) => {
          began.push(stepId);
          if (data === 3 && isBroken) throw new Error("no 3");
          return data * 10;
        },
      }),
    ],
  })
  .andThen({ id: "sum", execute: ({ data }) => data.reduce((sum, n) => sum + n, 0) });

/** On Restate, attempts that begin together begin in any order. */
const toKnown = (steps: readonly string[]): readonly string[] =>
  chosenBackend.isDistributed ? steps.toSorted() : steps;

let count = 0;
const newId = (): string => `w${++count}`;
const stateOf = async (server: TestServer, path: string) => (await server.get(`${path}/state`)).body.data;

const workflows = [asks("one", 1), asks("two", 2), asks("all", Infinity), gated, flaky];

describeInProcess("andForEach", { workflows }, (server) => {
  const begin = async (workflow: string, list: string[]) => {
    const id = newId();
    const json = { input: { list }, options: { executionId: id } };
    const { body } = await server.post(`/workflows/${workflow}/execute`, json);
    const path = `/workflows/${workflow}/executions/${id}`;
    const resume = (stepId: string | undefined, ok: string) =>
      server.post(`${path}/resume`, { resumeData: { ok }, ...(stepId && { options: { stepId } }) });
    return { data: body.data, path, resume };
  };

  it("suspends andForEach when only waiting items are left; others run on", async () => {
    const { data, resume } = await begin("all", ["a", "ask1", "b", "ask2", "c"]);
    expect(data).toMatchObject({ status: "suspended", suspension: { reason: "ask1?", stepId: "each/1/ask" } });
    expect(data.suspension.pending.map(({ stepId }: any) => stepId)).toEqual(["each/1/ask", "each/3/ask"]);
    expect(toKnown(began)).toEqual(toKnown([0, 1, 2, 3, 4].map((n) => `each/${n}/ask`)));
    const second = await resume("each/3/ask", "yes");
    expect(second.body.data).toMatchObject({ status: "suspended", suspension: { stepId: "each/1/ask" } });
    const third = await resume(undefined, "no");
    expect(third.body.data).toMatchObject({
      status: "completed",
      result: ["a.", "ask1 no.", "b.", "ask2 yes.", "c."],
    });
    expect(began.slice(5)).toEqual(["each/3/ask again", "each/1/ask again"]);
  });

  it("keeps the place of a waiting item in the concurrency of andForEach", async () => {
    const { data, resume } = await begin("two", ["ask0", "a", "ask2", "b", "ask4"]);
    expect(data.suspension.pending.map(({ stepId }: any) => stepId)).toEqual(["each/0/ask", "each/2/ask"]);
    expect(toKnown(began)).toEqual(toKnown(["each/0/ask", "each/1/ask", "each/2/ask"]));
    const second = (await resume("each/2/ask", "x")).body.data;
    expect(second.suspension.pending.map(({ stepId }: any) => stepId)).toEqual(["each/0/ask", "each/4/ask"]);
    expect(toKnown(began.slice(3))).toEqual(toKnown(["each/2/ask again", "each/3/ask", "each/4/ask"]));
    await resume("each/4/ask", "y");
    const last = await resume("each/0/ask", "z");
    expect(last.body.data.result).toEqual(["ask0 z.", "a.", "ask2 x.", "b.", "ask4 y."]);
  });

  it("finds the resumeSchema of a step without the number of its item", async () => {
    const { path, resume } = await begin("one", ["a", "ask1"]);
    const refused = await resume("each/1/ask", "  ");
    expect([refused.status, refused.body.error]).toEqual([400, expect.stringContaining("Invalid resume data")]);
    for (const stepId of ["each/0/ask", "each/ask", "ask", "each/1", "each/7/ask"])
      expect((await resume(stepId, "x")).status, stepId).toBe(400);
    expect((await stateOf(server, path)).status).toBe("suspended");
    expect((await resume("each/1/ask", " yes ")).body.data.result).toEqual(["a.", "ask1 yes."]);
  });

  it("begins andForEach again when the execution goes back to it", async () => {
    const { resume } = await begin("one", ["a", "ask1"]);
    expect((await resume("each", "x")).body.data).toMatchObject({ status: "suspended" });
    expect(toKnown(began)).toEqual(toKnown(["each/0/ask", "each/1/ask", "each/0/ask", "each/1/ask"]));
    expect((await resume("each/1/ask", "y")).body.data.result).toEqual(["a.", "ask1 y."]);
  });

  it("aborts the items of andForEach in flight at a cancel, and begins no further ones", async () => {
    const id = newId();
    const path = `/workflows/gated/executions/${id}`;
    const json = { input: {}, options: { executionId: id } };
    await server.post("/workflows/gated/execute", json, { headers: { prefer: "respond-async" } });
    await Promise.all([gates.reached(`${id} a`), gates.reached(`${id} b`)]);
    gates.open(`${id} a`);
    await gates.reached(`${id} c`);
    await server.post(`${path}/cancel`, {});
    expect(await stateOf(server, path)).toMatchObject({ status: "error", cancellation: {} });
    const expected = ["each/0/work", "each/1/work", "each/2/work", "each/1/work aborted", "each/2/work aborted"];
    // A replica that drives the execution hears of the cancel a moment after its answer.
    if (chosenBackend.isDistributed) await eventually(() => expect(toKnown(began)).toEqual(toKnown(expected)));
    for (const name of ["b", "c", "d"]) gates.open(`${id} ${name}`);
    expect(toKnown(began)).toEqual(toKnown(expected));
  });

  it("cancels an execution while items of andForEach wait", async () => {
    const { path, resume } = await begin("two", ["ask0", "ask1", "a"]);
    await server.post(`${path}/cancel`, {});
    expect(await stateOf(server, path)).toMatchObject({ status: "error", cancellation: {} });
    expect((await resume("each/0/ask", "x")).status).toBe(404);
    expect(toKnown(began)).toEqual(toKnown(["each/0/ask", "each/1/ask"]));
  });

  it("retries failed and unfinished items of andForEach, and no others", async () => {
    isBroken = true;
    const id = newId();
    const first = await server.post("/workflows/flaky/execute", { input: {}, options: { executionId: id } });
    expect(first.status).toBe(500);
    const [one, two, three, four] = [0, 1, 2, 3].map((n) => [`map ${n}`, `each/${n}/work`]);
    expect(began).toEqual(["items", ...one!, ...two!, ...three!]);
    began.length = 0;
    isBroken = false;
    const retried = await server.post(`/workflows/flaky/executions/${id}/retry`, {});
    expect(retried.body.data).toMatchObject({ status: "completed", result: 100 });
    expect(began).toEqual(["each/2/work", ...four!]);
  });
});
