// What a register keeps has a bound, and says what happens at it.
import { randomUUID } from "node:crypto";
import { defineWorkflow } from "agentserve";
import { expect, it, onTestFinished } from "vitest";
import { Arrivals } from "../../src/backends/restate/arrivals.ts";
import { RestateClient } from "../../src/backends/restate/client/client.ts";
import { LocalDrives } from "../../src/backends/restate/drive/drives.ts";
import { States } from "../../src/backends/restate/reads/states.ts";
import { SettledStates } from "../../src/backends/restate/reads/settled-states.ts";
import { unchecked } from "../../src/core/caller.ts";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import { begin } from "../../src/workflows/executions.ts";
import { resume } from "../../src/workflows/resume.ts";
import { patienceMs, patientTimeouts } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { openEngine } from "./engine.ts";
import { freePort } from "./restate-server.ts";

const { TEST_RESTATE_INGRESS: ingress = "" } = process.env;
const timeout = 4 * patienceMs;

/** An engine with an execution `x` whose step ends when the gate is opened. */
async function openHanging() {
  const place = { name: `bounds-${randomUUID()}`, port: await freePort() };
  const gate = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const definition = defineWorkflow({ id: "hanging" }).andThen({
    id: "hangs",
    execute: async () => {
      started.resolve();
      await gate.promise;
    },
  }) as unknown as WorkflowDefinition; // the chain is one
  const opened = await openEngine(place, definition);
  onTestFinished(() => opened.engine.close({ drainMs: 0 }));
  await begin(opened.engine, opened.runnable, {}, { executionId: "x" }, unchecked);
  await started.promise;
  return { ...opened, place, definition, gate };
}
async function call(path: string, body: unknown): Promise<any> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${ingress}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return response.json();
}

it("tells the caller that waits longest to ask again, beyond 256 callers of an execution", { timeout }, async () => {
  const { place, gate } = await openHanging();
  let again = 0;
  const answers = Array.from({ length: 260 }, async () => {
    const state = await call(`${place.name}.wait/settled`, { id: "x", afterEpoch: 0 });
    if (state === null) again++;
    return state?.status;
  });
  await until(() => again === 4, "four to be told");
  gate.resolve();
  const statuses = await Promise.all(answers);
  expect(statuses.filter((status) => status === "completed").length).toBe(256);
});

it("wakes the reader that waits longest beyond 64 replicas, and all of them at the end", { timeout }, async () => {
  const { place, gate } = await openHanging();
  let woken = 0;
  const answers = Array.from({ length: 70 }, async (_, index) => {
    await call(`${place.name}.wait/row`, { id: "x", afterRow: 9, replica: `r${index}` });
    woken++;
  });
  await until(() => woken === 6, "six to be woken");
  gate.resolve();
  await Promise.all(answers);
  expect(woken).toBe(70);
});

it("keeps no commands of an execution that a drive has stored", { timeout }, async () => {
  const { engine, runnable, gate } = await openHanging();
  for (let times = 0; times < 60; times++) {
    const suspended = await engine.suspend("x", "for now");
    if (!suspended) throw new Error("It was not running");
    await resume(engine, runnable, suspended, {});
  }
  gate.resolve();
  expect(await engine.settled("x", 120)).toMatchObject({ status: "completed", epoch: 121 });
});

it("accepts only the end of an execution beyond 64 commands that no drive has stored", { timeout }, async () => {
  const { engine, place, definition, gate } = await openHanging();
  await engine.close({ drainMs: 0 });
  const second = await openEngine(place, definition, undefined, false); // drives nothing
  for (let times = 0; times < 32; times++) {
    expect(await second.engine.suspend("x", "for now")).toMatchObject({ status: "suspended" });
    const next = { at: Date.now(), to: "running" };
    expect(await call(`${place.name}/x/move`, { next, token: randomUUID() })).toHaveProperty("state");
  }
  await expect(second.engine.suspend("x", "once more")).rejects.toMatchObject({ status: 503 });
  expect(await second.engine.cancel("x", "no more")).toMatchObject({ status: "error", epoch: 65 });
  await second.engine.close({ drainMs: 0 });
  const third = await openEngine(place, definition);
  onTestFinished(() => third.engine.close({ drainMs: 0 }));
  gate.resolve();
  let seen = 0;
  let last = "";
  while (last !== "workflow-error")
    for await (const { seq = 0, type } of third.engine.events("x", seen, AbortSignal.timeout(patienceMs))) {
      expect(seq).toBe(++seen);
      last = type;
    }
});

it("finds no execution by an id that is a part of a path", { timeout }, async () => {
  const { engine } = await openHanging();
  const ids = [".", "..", "../x", "a/b", "", "-"];
  expect(await Promise.all(ids.map((id) => engine.state(id)))).toEqual(ids.map(() => undefined));
});

it(
  "states for callers that are about to ask take at most 16 MiB, the oldest is asked for again",
  { timeout },
  async () => {
    const dead = `http://127.0.0.1:${await freePort()}`;
    const client = new RestateClient({ ingress: [dead], admin: dead, name: "x", timeouts: patientTimeouts });
    const states = new SettledStates({
      client,
      states: new States(client),
      drives: new LocalDrives(),
      arrivals: new Arrivals(),
      closed: new AbortController().signal,
    });
    const result = JSON.stringify("x".repeat(3_000_000));
    const ids = ["a", "b", "c", "d", "e", "f"];
    for (const id of ids) {
      states.expect(id);
      const execution = { id, workflowId: "w", input: "{}", context: {}, startAt: 1, steps: [] };
      states.notify({ execution, status: "completed", epoch: 1, last: { at: 1, to: "completed", result } });
    }
    const kept = await Promise.allSettled(ids.map((id) => states.next(id, 0)));
    expect(kept.map(({ status }) => status)).toEqual(["rejected", ...ids.slice(1).map(() => "fulfilled")]);
  },
);
