// A drive hands over after 500 rows. What a workflow does does not depend on it.
import { randomUUID } from "node:crypto";
import { andAll, andWorkflow, defineWorkflow, embedded } from "agentserve";
import { expect, it, onTestFinished } from "vitest";
import { unchecked } from "../../src/core/caller.ts";
import type { Engine } from "../../src/engine/contract/engine.ts";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import type { LiveEvent, StoredEvent } from "../../src/engine/events.ts";
import { begin, type Runnable } from "../../src/workflows/executions.ts";
import { patienceMs } from "../harness/patience.ts";
import { openEngine, openOn } from "./engine.ts";
import { freePort } from "./restate-server.ts";

const timeout = 8 * patienceMs;

/** A chain of steps that count. */
function toChain(id: string, length: number, first?: object): any {
  // The chain's types follow each step; here they are put together at run time.
  let chain: any = defineWorkflow({ id });
  if (first) chain = chain.andAll(first);
  for (let n = 0; n < length; n++)
    chain = chain.andThen({ id: `s${n}`, execute: ({ data }: any) => ({ n: (data.n ?? 0) + 1 }) });
  return chain;
}

async function play({ engine, runnable }: { engine: Engine; runnable: Runnable }) {
  onTestFinished(() => engine.close({ drainMs: 0 }));
  const signal = AbortSignal.timeout(timeout);
  const reading = engine.events("x", 0, signal);
  await begin(engine, runnable, { n: 0 }, { executionId: "x" }, unchecked);
  const events: (StoredEvent | LiveEvent)[] = [];
  for await (const event of reading) events.push(event);
  const { status, last } = (await engine.state("x"))!;
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  const again: (StoredEvent | LiveEvent)[] = [];
  for await (const event of engine.events("x", 0, signal)) again.push(event);
  expect(again, "as stored").toEqual(events);
  return { events, status, result: last && "result" in last ? last.result : undefined };
}

/** Plays a workflow on both backends. `drives` is the number of walks on Restate: one for each drive. */
async function playBoth(definition: WorkflowDefinition) {
  let drives = 0;
  const place = { name: `long-${randomUUID()}`, port: await freePort() };
  const onRestate = await openEngine(place, definition, (createWalk) => (execution, host) => {
    drives++;
    return createWalk(execution, host);
  });
  const restate = await play(onRestate);
  const local = await play(await openOn(embedded({ path: ":memory:" }), definition));
  expect([restate.status, restate.result]).toEqual([local.status, local.result]);
  return { restate: restate.events, local: local.events, drives };
}
const show = ({ seq, type, from }: StoredEvent | LiveEvent): string => `${seq} ${type} ${from ?? ""}`;

it(
  "a chain of 1,200 steps is driven by three drives, with the events of the embedded engine",
  { timeout },
  async () => {
    const { restate, local, drives } = await playBoth(toChain("long", 1_200));
    expect(drives).toBe(3);
    expect(restate.map(show)).toEqual(local.map(show));
  },
);

it("branches that always have something in flight are held back until a drive can hand over", { timeout }, async () => {
  const branch = (id: string) => andWorkflow({ id, workflow: toChain(`inner-${id}`, 650) });
  const fork = andAll({ id: "fork", steps: [branch("a"), branch("b")] as never });
  const { restate, local, drives } = await playBoth(toChain("wide", 1, fork));
  expect(drives).toBeGreaterThan(1);
  // The branches may pass each other, and each has its own order.
  const inOrder = (events: readonly (StoredEvent | LiveEvent)[], id: string): string[] =>
    events.filter(({ from }) => from?.startsWith(id)).map(({ type, from }) => `${type} ${from}`);
  for (const id of ["a", "b", "fork", "s0"]) expect(inOrder(restate, id)).toEqual(inOrder(local, id));
  expect(restate.length).toBe(local.length);
});
