import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { defineWorkflow } from "agentserve";
import * as v from "valibot";
import { expect, it, onTestFinished } from "vitest";
import { unchecked } from "../../src/core/caller.ts";
import type { WorkflowDefinition } from "../../src/engine/definition.ts";
import { begin } from "../../src/workflows/executions.ts";
import { resume } from "../../src/workflows/resume.ts";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { die } from "./die.ts";
import { asking, openEngine } from "./engine.ts";
import { freePort } from "./restate-server.ts";

const module = join(import.meta.dirname, "lost-row-app.ts");
const beginning = ["workflow-start", "step-start", "step-complete", "step-start", "workflow-suspended"];

/** Runs replicas that die, and continues with one on the second version of the workflow. */
async function dieAt(...faults: string[]) {
  const place = { name: `lost-${randomUUID()}`, port: await freePort() };
  for (const fault of faults) await die(module, { ...place, fault });
  const ran: string[] = [];
  const opened = await openEngine(
    place,
    asking(2, (step) => ran.push(step)),
  );
  onTestFinished(() => opened.engine.close({ drainMs: 0 }));
  const eventsFrom = async (afterSeq: number): Promise<string[]> => {
    const seen: string[] = [];
    for await (const { seq, type } of opened.engine.events("x", afterSeq, AbortSignal.timeout(patienceMs)))
      seen.push(`${seq} ${type}`);
    return seen;
  };
  return { ...opened, ran, eventsFrom };
}
const numbered = (types: readonly string[]): string[] => types.map((type, index) => `${index + 1} ${type}`);

const timeout = 2 * patienceMs;

it("a suspension whose row was lost with its drive is stored, and resumed", { timeout }, async () => {
  const { engine, runnable, ran, eventsFrom } = await dieAt("suspended");
  const state = await engine.state("x");
  expect(state).toMatchObject({ status: "suspended", epoch: 1, last: { pending: [{ stepId: "ask", reason: "Why" }] } });
  expect(await eventsFrom(0)).toEqual(numbered(beginning));
  const { epoch } = await resume(engine, runnable, state!, { resumeData: 2 });
  expect(await engine.settled("x", epoch)).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  expect(ran, "recorded steps do not run again").toEqual(["ask", "more"]);
  expect((await eventsFrom(beginning.length)).at(-1)).toMatch(/workflow-complete$/);
});

it("an end whose row was lost with its drive is stored", { timeout }, async () => {
  const { engine, ran, eventsFrom } = await dieAt("completed");
  expect(await engine.state("x")).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  const seen = await eventsFrom(beginning.length);
  expect(seen.map((event) => event.replace(/^\d+ /, ""))).toEqual(["step-complete", "workflow-complete"]);
  expect(ran).toEqual([]);
});

it("a resume that comes before the lost row of the suspension continues after it", { timeout }, async () => {
  const { engine, runnable, ran } = await dieAt("suspended");
  const state = (await engine.state("x"))!;
  const { epoch } = await resume(engine, runnable, state, { resumeData: 2 });
  expect(await engine.settled("x", epoch)).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  expect(ran).toEqual(["ask", "more"]);
});

it(
  "a replica that dies between the end of a drive and the next one leaves the rest to Restate",
  { timeout },
  async () => {
    const { engine, ran } = await dieAt("step", "rescue");
    expect(await engine.settled("x", 0, AbortSignal.timeout(patienceMs))).toMatchObject({ status: "suspended" });
    expect(ran).toEqual(["first", "ask"]);
  },
);

it("code with fewer retries continues a running drive", { timeout }, async () => {
  const place = { name: `retries-${randomUUID()}`, port: await freePort() };
  let tries = 0;
  const flaky = (attempts: number) =>
    defineWorkflow({ id: "flaky" }).andThen({
      id: "tries",
      retry: { attempts },
      execute: () => {
        if (++tries < 3) throw new Error("not yet");
        return tries === 3 ? new Promise<string>(() => {}) : "at last";
      },
    }) as unknown as WorkflowDefinition; // the chain is one
  const first = await openEngine(place, flaky(3));
  await begin(first.engine, first.runnable, {}, { executionId: "x" }, unchecked);
  await until(() => tries === 3, "the third attempt");
  await first.engine.close({ drainMs: 0 });
  const second = await openEngine(place, flaky(1));
  onTestFinished(() => second.engine.close({ drainMs: 0 }));
  const state = await second.engine.settled("x", 0, AbortSignal.timeout(patienceMs));
  expect(state).toMatchObject({ status: "completed", last: { result: '"at last"' } });
  expect(tries, "only the attempt in flight runs again").toBe(4);
});

it("code that leads elsewhere under a running drive is found, though its steps are the same", { timeout }, async () => {
  const place = { name: `elsewhere-${randomUUID()}`, port: await freePort() };
  let runs = 0;
  const nested = (schema?: ReturnType<typeof v.unknown>) => {
    const inner = defineWorkflow({ id: "inner", ...(schema && { input: schema }) }).andThen({
      id: "hangs",
      execute: () => (++runs === 1 ? new Promise<string>(() => {}) : "at last"),
    });
    // The chain is a definition.
    return defineWorkflow({ id: "outer" }).andWorkflow({
      id: "sub",
      workflow: inner as never,
    }) as unknown as WorkflowDefinition;
  };
  const first = await openEngine(place, nested(v.unknown()));
  await begin(first.engine, first.runnable, {}, { executionId: "x" }, unchecked);
  await until(() => runs === 1, "the step");
  await first.engine.close({ drainMs: 0 });
  const second = await openEngine(place, nested());
  const state = await second.engine.settled("x", 0, AbortSignal.timeout(patienceMs));
  expect(state).toMatchObject({
    status: "suspended",
    last: {
      kind: "system",
      reason: "Workflow changed: the journal has a result for sub<#1 that this version does not produce",
    },
  });
  await second.engine.close({ drainMs: 0 });
  const third = await openEngine(place, nested(v.unknown())); // the old code again
  onTestFinished(() => third.engine.close({ drainMs: 0 }));
  const { epoch } = await resume(third.engine, third.runnable, state, {});
  expect(await third.engine.settled("x", epoch)).toMatchObject({ status: "completed", last: { result: '"at last"' } });
});
