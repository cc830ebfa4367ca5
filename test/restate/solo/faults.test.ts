import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { applyIdentity, unchecked } from "../../../src/core/caller.ts";
import { newId } from "../../../src/core/id.ts";
import type { Execution } from "../../../src/engine/execution.ts";
import type { Runnable } from "../../../src/workflows/executions.ts";
import { patienceMs } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { die } from "../die.ts";
import { openEngine, pair } from "../engine.ts";
import { freePort } from "../restate-server.ts";

const module = join(import.meta.dirname, "lost-end-app.ts");
const timeout = 2 * patienceMs;

async function open(version: 1 | 2, place: { name: string; port: number }) {
  const ran: string[] = [];
  const opened = await openEngine(
    place,
    pair(version, (step) => ran.push(step)),
  );
  onTestFinished(() => opened.engine.close({ drainMs: 0 }));
  const eventsOf = async (id: string): Promise<string[]> => {
    const seen: string[] = [];
    for await (const { seq, type } of opened.engine.events(id, 0, AbortSignal.timeout(patienceMs)))
      seen.push(`${seq} ${type}`);
    return seen;
  };
  return { ...opened, ran, eventsOf };
}
const toPlace = async () => ({ name: `solo-${randomUUID()}`, port: await freePort() });
const toExecution = (id: string, { definition, steps }: Runnable): Execution => ({
  id,
  workflowId: definition.id,
  input: "{}",
  ...applyIdentity({}, unchecked),
  startAt: Date.now(),
  steps,
});

/** Runs a replica on the first version that dies, and continues with one on the second version. */
async function dieAt(fault: string) {
  const place = await toPlace();
  const id = newId();
  await die(module, { ...place, id, fault });
  return { id, ...(await open(2, place)) };
}
const whole = ["1 workflow-start", "2 step-start", "3 step-complete", "4 step-start", "5 step-complete"];

it("an end whose row was lost with its drive keeps the result of its code", { timeout }, async () => {
  const { id, engine, ran, eventsOf } = await dieAt("ended");
  expect(await engine.state(id)).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  expect(await eventsOf(id)).toEqual([...whole, "6 workflow-complete"]);
  const { states } = await engine.list({ workflowId: "pair", limit: 10 });
  expect(states).toMatchObject([{ execution: { id }, status: "completed" }]);
  expect(ran).toEqual([]);
});

it("a result that no row has, of code that is gone, is made again after the rows", { timeout }, async () => {
  const { id, engine, ran, eventsOf } = await dieAt("decided");
  const state = await engine.settled(id, 0, AbortSignal.timeout(patienceMs));
  expect(state).toMatchObject({ status: "completed", last: { result: "[[1,2],3]" } });
  expect(ran).toEqual(["second", "more"]);
  expect((await eventsOf(id)).at(-1)).toBe("8 workflow-complete");
  const { states } = await engine.list({ workflowId: "pair", limit: 10 });
  expect(states).toMatchObject([{ execution: { id }, status: "completed" }]);
});

it("a start that arrives twice runs once", { timeout }, async () => {
  const { engine, runnable, ran, eventsOf } = await open(1, await toPlace());
  const id = newId();
  const begin = () => engine.begin(toExecution(id, runnable), runnable, "awaited");
  await Promise.all([begin(), begin(), begin()]);
  expect(await engine.settled(id, 0)).toMatchObject({ status: "completed", epoch: 1 });
  await begin();
  const last = newId();
  await engine.begin(toExecution(last, runnable), runnable, "awaited");
  await engine.settled(last, 0);
  await until(async () => (await engine.list({ workflowId: "pair", limit: 10 })).states.length === 2, "both");
  expect(ran).toEqual(["first", "second", "first", "second"]);
  expect(await eventsOf(id)).toEqual([...whole, "6 workflow-complete"]);
  expect(await engine.begin(toExecution(id, runnable), runnable)).toEqual({ created: false });
});
