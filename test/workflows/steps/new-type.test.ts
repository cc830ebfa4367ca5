// A step type that the engine has never heard of: it runs, waits, retries, forks, and is shown by `GET …/steps` and `runs show`.
import { andThen, defineWorkflow } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import type { Branch, Step, StepRunner } from "../../../src/engine/definition/definition.ts";
import type { Value } from "../../../src/engine/walk/value.ts";
import { createStep } from "../../../src/workflows/steps/step.ts";
import { runHere } from "../../harness/in-process.ts";
import { startTestServer } from "../../harness/server.ts";

/** Runs a step, and then another one with its output, if its own code returns true. */
const andTwoOf = (id: string, steps: readonly Step[], isWanted: () => boolean): Step =>
  createStep({
    type: "andTwoOf",
    shape: "sequence",
    options: { id, steps },
    needs: {},
    codes: { "?": { execute: () => isWanted() } },
    *run(runner: StepRunner, start: Value): Branch {
      let data = start;
      yield* runner.entry(id, { suffix: "?", data });
      for (const step of steps) ({ value: data } = yield* runner.step(step, data));
      return { value: data };
    },
  });

it("runs, retries, forks and shows a step of a type that only a test has", async () => {
  const ran: string[] = [];
  let isBroken = true;
  const add = (name: string) =>
    andThen({
      id: name,
      execute({ data }) {
        ran.push(name);
        if (name === "b" && isBroken) throw new Error("b is broken");
        return [...(data as string[]), name];
      },
    });
  const bare = defineWorkflow({ id: "w", input: v.array(v.string()) });
  const ask = andThen({
    id: "ask",
    execute: ({ data, resumeData, suspend }) => (resumeData ? data : suspend("Go on?")),
  });
  const workflow = { ...bare, steps: [andTwoOf("two", [add("a"), add("b")], () => true), ask] };
  const server = await startTestServer("dev", { config: { workflows: [workflow] } });
  const options = { executionId: "e" };
  expect((await server.post("/workflows/w/execute", { input: [], options })).status).toBe(500);
  const [shown] = (await server.get("/workflows/w")).body.data.steps;
  expect(shown).toMatchObject({ type: "andTwoOf", shape: "sequence" });

  isBroken = false;
  const retried = await server.post("/workflows/w/executions/e/retry", {});
  expect(retried.body.data.status).toBe("suspended");
  const stepsOf = async (id: string) => {
    const { items } = (await server.get(`/workflows/w/executions/${id}/steps`)).body.data;
    return items.map(({ path, type, status, input, output }: any) => [path, type, status, input, output]);
  };
  const two = [
    ["two", "andTwoOf", "success", [], ["a", "b"]],
    ["a", "andThen", "success", [], ["a"]],
    ["b", "andThen", "success", ["a"], ["a", "b"]],
  ];
  const waiting = ["ask", "andThen", "suspended", ["a", "b"], undefined];
  expect(await stepsOf("e")).toEqual([...two, waiting]);

  const forked = await server.post("/workflows/w/executions/e/fork", {
    fromStep: "ask",
    options: { executionId: "f" },
  });
  expect([forked.status, forked.body.data.status]).toEqual([200, "suspended"]);
  expect(await stepsOf("f")).toEqual([...two, waiting]);
  const resumed = await server.post("/workflows/w/executions/f/resume", { resumeData: true });
  expect(resumed.body.data).toMatchObject({ status: "completed", result: ["a", "b"] });
  expect(ran).toEqual(["a", "b", "b"]);
  const { stdout } = await runHere(["runs", "show", "f", "--url", server.url], { env: process.env });
  expect(stdout).toMatch(/two +andTwoOf[^]* a +andThen[^]* b +andThen/);
});
