import * as v from "valibot";
import { andThen, andWorkflow, defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { describeInProcess, startTestServer } from "../harness/server.ts";

/** The steps that ran, in order, by execution. */
const ran = new Map<string, string[]>();
const runsOf = (execution: string): string[] => ran.get(execution) ?? [];
const failing = new Set<string>();
const note = ({ executionId, stepId }: { executionId: string; stepId: string }): void =>
  void ran.set(executionId, [...runsOf(executionId), stepId]);

interface Context {
  data: unknown;
  executionId: string;
  stepId: string;
  idempotencyKey: string;
}
/** A step that appends its idempotency key to `data`. */
const adding = (id: string) => ({
  id,
  execute: (context: Context): string[] => {
    note(context);
    return [...(context.data as string[]), context.idempotencyKey];
  },
});
const add = (id: string) => andThen(adding(id));
const chain = defineWorkflow({ id: "chain", input: v.array(v.string()) })
  .andThen(adding("one"))
  .andThen({ id: "long", execute: (context) => (note(context), { text: "x".repeat(5_000), before: context.data }) })
  .andThen({
    id: "two",
    execute: (context) => {
      note(context);
      const { text, before } = context.data;
      if (failing.has(`${context.executionId}/two`)) throw new Error("two is broken");
      return [...before, String(text.length), String(context.getStepData("one"))];
    },
  })
  .andThen({ id: "three", execute: (context) => (note(context), context.data) });

/** Ends with its second step, which runs no code. */
const ending = defineWorkflow({ id: "ending" })
  .andThen({ id: "long", execute: () => ({ text: "x".repeat(5_000) }) })
  .andWorkflow({ id: "empty", workflow: defineWorkflow({ id: "none" }) });
const inner = defineWorkflow({ id: "inner", result: v.array(v.string()) }).andThen(adding("deep"));
/** Every step type before the step that a fork begins with. */
const rich = defineWorkflow({ id: "rich", input: v.array(v.string()) })
  .andTap({
    id: "tap",
    execute: (context) => {
      note(context);
      throw new Error("a tap may fail");
    },
  })
  .andWhen({ id: "when", condition: (context) => (note(context), true), step: add("then") })
  .andWhen({ id: "not", condition: (context) => (note(context), false), step: add("never") })
  .andAll({ id: "all", steps: [add("left"), andWorkflow({ id: "sub", workflow: inner })] })
  .andRace({
    id: "race",
    steps: [
      andThen({
        id: "loses",
        retry: { attempts: 2 },
        execute: (context) => {
          note(context);
          throw new Error("it loses");
        },
      }),
      andThen({ id: "wins", execute: async (context) => (note(context), JSON.stringify(context.data)) }),
    ],
  })
  .andThen({
    id: "ask",
    resumeSchema: v.string(),
    execute: (context) => (note(context), context.resumeData ?? context.suspend("yes?", { asked: true })),
  })
  .andThen({
    id: "end",
    execute: (context) => (note(context), `${context.data} ${String(context.getStepData("wins"))}`),
  });

const tapped = defineWorkflow({ id: "tapped", input: v.array(v.string()) })
  .andThen(adding("one"))
  .andTap({
    id: "tap",
    retry: { attempts: 3 },
    execute: (context) => {
      note(context);
      throw new Error("a tap may fail");
    },
  })
  .andThen({
    id: "two",
    execute: (context) => {
      note(context);
      if (failing.has(`${context.executionId}/two`)) throw new Error("two is broken");
      return context.data;
    },
  })
  .andThen({ id: "ask", execute: (context) => (note(context), context.suspend("yes?")) });

describeInProcess(
  "POST /workflows/:id/executions/:executionId/fork",
  { workflows: [chain, rich, tapped, ending] },
  (server) => {
    let count = 0;
    const newName = (): string => `fork-${++count}`;
    const execute = async (workflow: string, ...broken: string[]): Promise<string> => {
      const id = newName();
      for (const step of broken) failing.add(`${id}/${step}`);
      await server.post(`/workflows/${workflow}/execute`, { input: ["start"], options: { executionId: id } });
      return id;
    };
    const fork = (workflow: string, id: string, body: object = {}) =>
      server.post(`/workflows/${workflow}/executions/${id}/fork`, body);
    const stateText = async (workflow: string, id: string): Promise<string> =>
      (await server.get(`/workflows/${workflow}/executions/${id}/state`)).text;
    const eventsOf = async (workflow: string, id: string) =>
      (await server.get(`/workflows/${workflow}/executions/${id}/stream`)).events.filter(
        ({ seq }) => seq !== undefined,
      );

    it("forks from the step that failed, and leaves the original as it was", async () => {
      const id = await execute("chain", "two");
      const [before, events] = [await stateText("chain", id), await eventsOf("chain", id)];
      const response = await fork("chain", id);
      const { executionId, status, result } = response.body.data;
      expect(response.headers.get("x-execution-id")).toBe(executionId);
      expect([response.status, status]).toEqual([200, "completed"]);
      expect(executionId).not.toBe(id);
      // Copied results keep the idempotency keys of the original; new steps have new ones.
      expect(result).toEqual(["start", `${id}/one`, "5000", `start,${id}/one`]);
      expect(runsOf(executionId)).toEqual(["two", "three"]);
      expect(await stateText("chain", id)).toBe(before);
      expect(await eventsOf("chain", id)).toEqual(events);
      expect((await server.get(`/workflows/chain/executions/${executionId}/state`)).body.data).toMatchObject({
        forkedFrom: id,
        input: ["start"],
        status: "completed",
      });
      expect((await eventsOf("chain", executionId)).map(({ type, from, seq }) => [seq, type, from])).toEqual([
        [1, "workflow-start", undefined],
        [2, "step-start", "two"],
        [3, "step-complete", "two"],
        [4, "step-start", "three"],
        [5, "step-complete", "three"],
        [6, "workflow-complete", undefined],
      ]);
    });

    it("copies every step type into a fork, which begins with the waiting step", async () => {
      const id = await execute("rich");
      const { executionId, status, suspension } = (await fork("rich", id)).body.data;
      expect([status, suspension.stepId, suspension.data]).toEqual(["suspended", "ask", { asked: true }]);
      expect(runsOf(executionId)).toEqual(["ask"]);
      const path = (of: string) => `/workflows/rich/executions/${of}/resume`;
      const forked = await server.post(path(executionId), { resumeData: "yes" });
      const original = await server.post(path(id), { resumeData: "yes" });
      expect(forked.body.data.result).toBe(original.body.data.result);
      expect(runsOf(executionId)).toEqual(["ask", "ask", "end"]);
    });

    it("forks from a named step that has begun", async () => {
      const id = await execute("chain");
      const all = await fork("chain", id, { fromStep: "one" });
      expect(runsOf(all.body.data.executionId)).toEqual(["one", "long", "two", "three"]);
      const last = await fork("chain", id, { fromStep: "three" });
      expect(runsOf(last.body.data.executionId)).toEqual(["three"]);
      const again = await fork("chain", last.body.data.executionId, { fromStep: "two" });
      expect(runsOf(again.body.data.executionId)).toEqual(["two", "three"]);
      expect(again.body.data.result).toEqual(["start", `${id}/one`, "5000", `start,${id}/one`]);
    });

    it("forks a completed execution, or one with another input, from the first step", async () => {
      const id = await execute("chain");
      const same = await fork("chain", id);
      expect(runsOf(same.body.data.executionId)).toEqual(["one", "long", "two", "three"]);
      const other = await fork("chain", id, { input: ["other"] });
      expect(other.body.data.result[0]).toBe("other");
      expect(runsOf(other.body.data.executionId)).toEqual(["one", "long", "two", "three"]);
    });

    it("completes a fork at once if the steps after the copied ones run no code, also with a long result", async () => {
      const { executionId: id } = (await server.post("/workflows/ending/execute", { input: {} })).body.data;
      const { status, body } = await fork("ending", id, { fromStep: "empty" });
      expect([status, body.data.status, body.data.result]).toEqual([200, "completed", { text: "x".repeat(5_000) }]);
    });

    it("takes the id of a fork, and refuses one that exists", async () => {
      const id = await execute("chain");
      const name = newName();
      expect((await fork("chain", id, { options: { executionId: name } })).body.data.executionId).toBe(name);
      expect(await fork("chain", id, { options: { executionId: name } })).toMatchObject({
        status: 409,
        body: { error: `Execution ${name} already exists` },
      });
      expect((await fork("chain", id, { options: { executionId: "not an id" } })).status).toBe(400);
      expect((await fork("chain", id, { options: { executionId: "child:x" } })).body.error).toBe(
        "Invalid request body: options.executionId: expected an id that does not begin with child: or schedule:",
      );
    });

    it("answers a fork with respond-async at once with 202", async () => {
      const id = await execute("chain", "two");
      const init = { method: "POST", json: {}, headers: { prefer: "respond-async" } };
      const response = await server.request(`/workflows/chain/executions/${id}/fork`, init);
      expect(response).toMatchObject({ status: 202, body: { data: { status: "running" } } });
      const { executionId } = response.body.data;
      await expect.poll(async () => JSON.parse(await stateText("chain", executionId)).data.status).toBe("completed");
    });

    it("retries and forks a fork like any other execution", async () => {
      const id = await execute("chain", "two");
      const name = newName();
      failing.add(`${name}/two`);
      expect((await fork("chain", id, { options: { executionId: name } })).status).toBe(500);
      failing.delete(`${name}/two`);
      const retried = await server.post(`/workflows/chain/executions/${name}/retry`);
      expect(retried.body.data.result).toEqual(["start", `${id}/one`, "5000", `start,${id}/one`]);
      expect(runsOf(name)).toEqual(["two", "two", "three"]);
    });

    it("copies the last run of a step into a fork after a resume went back", async () => {
      const id = await execute("rich");
      await server.post(`/workflows/rich/executions/${id}/resume`, { options: { stepId: "when" } });
      const state = JSON.parse(await stateText("rich", id)).data;
      expect(state.status).toBe("suspended");
      const forked = (await fork("rich", id, { fromStep: "ask" })).body.data;
      expect(runsOf(forked.executionId)).toEqual(["ask"]);
      const path = (of: string) => `/workflows/rich/executions/${of}/resume`;
      const [one, other] = [
        await server.post(path(id), { resumeData: "yes" }),
        await server.post(path(forked.executionId), { resumeData: "yes" }),
      ];
      expect(one.body.data.result).toContain("then@1");
      expect(other.body.data.result).toBe(one.body.data.result);
    });

    it("copies an andTap that failed at each attempt into a fork", async () => {
      const id = await execute("tapped");
      expect(runsOf(id)).toEqual(["one", "tap", "tap", "tap", "two", "ask"]);
      for (const [fromStep, runs] of [
        ["two", ["two", "ask"]],
        [undefined, ["ask"]],
      ] as const) {
        const { status, body } = await fork("tapped", id, { fromStep });
        expect([status, body.data?.status]).toEqual([200, "suspended"]);
        expect(runsOf(body.data.executionId)).toEqual(runs);
      }
    });

    it("streams the events of a copied step that a resume of the fork goes back to", async () => {
      const id = await execute("tapped");
      const { executionId } = (await fork("tapped", id, { fromStep: "ask" })).body.data;
      await server.post(`/workflows/tapped/executions/${executionId}/resume`, { options: { stepId: "one" } });
      expect(runsOf(executionId)).toEqual(["ask", "one", "tap", "tap", "tap", "two", "ask"]);
      const started = (await eventsOf("tapped", executionId)).filter(({ type }) => type === "step-start");
      expect(started.map(({ from }) => from)).toEqual(["ask", "one", "tap", "two", "ask"]);
    });

    it("refuses a fork from a step that a resume went back from", async () => {
      const id = await execute("tapped");
      failing.add(`${id}/two`);
      await server.post(`/workflows/tapped/executions/${id}/resume`, { options: { stepId: "two" } });
      expect(await fork("tapped", id, { fromStep: "ask" })).toMatchObject({
        status: 400,
        body: { error: `Execution ${id} cannot be forked from step ask` },
      });
      const { executionId } = (await fork("tapped", id)).body.data;
      expect(runsOf(executionId)).toEqual(["two", "ask"]);
    });

    it.each([
      [{ fromStep: "nowhere" }, /cannot be forked from step nowhere$/],
      [{ fromStep: "three" }, /cannot be forked from step three$/],
      [{ fromStep: "one", input: ["x"] }, /^Invalid request body: input: expected no input with fromStep$/],
      [{ input: { not: "an array" } }, /^Input validation failed: /],
    ])("refuses a fork with %j with 400", async (body, message) => {
      const id = await execute("chain", "two");
      const response = await fork("chain", id, body);
      expect([response.status, response.body.error]).toEqual([400, expect.stringMatching(message)]);
    });

    it("answers a fork of an unknown execution with 404", async () => {
      expect((await fork("chain", "unknown")).status).toBe(404);
    });
  },
);

describe("a fork", () => {
  it("refuses a fork of a running execution with 409", async () => {
    const started = Promise.withResolvers<void>();
    const hangs = defineWorkflow({ id: "hangs" }).andThen({
      id: "hang",
      execute: () => (started.resolve(), new Promise(() => {})),
    });
    const server = await startTestServer("start", { config: { workflows: [hangs] } });
    const waiting = server.post("/workflows/hangs/execute", { input: {}, options: { executionId: "e" } });
    await started.promise;
    for (const body of [{}, { fromStep: "hang" }, { input: {} }])
      expect(
        await server.post("/workflows/hangs/executions/e/fork", body, { headers: { prefer: "respond-async" } }),
      ).toMatchObject({
        status: 409,
        body: { error: "Execution e is running" },
      });
    await server.post("/workflows/hangs/executions/e/cancel", {});
    await waiting;
  });
});
