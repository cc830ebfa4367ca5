import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { andSleep, andThen, defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { unchecked } from "../../src/core/caller.ts";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import { begin } from "../../src/workflows/executions.ts";
import { resume } from "../../src/workflows/resume.ts";
import { bySize } from "../harness/size.ts";
import { Book } from "./trees/play/book.ts";
import { FastClock } from "./trees/play/clock.ts";
import { openWorld } from "./trees/play/world.ts";
import { newFile } from "../harness/folders.ts";

const moments = Array.from({ length: bySize(25, 100) }, (_, turns) => turns);
/** Takes so many turns of the event loop, or of the microtask queue. */
async function take(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await (turns % 2 ? setImmediate() : null);
}

/** An engine whose time the test moves. */
async function open(definition: WorkflowDefinition, file = newFile(), clock = new FastClock()) {
  return { ...(await openWorld(file, definition, new Book(clock), { clock })), clock };
}

it("ends a sleep or cancels the execution, when both happen at once, and complains about nothing", async () => {
  const definition = defineWorkflow({ id: "sleeps" })
    .andSleep({ id: "nap", duration: "1h" })
    .andThen({ id: "end", execute: () => "done" });
  const { engine, runnable, complaints, close, clock } = await open(definition);
  const ends = { completed: 0, error: 0 };
  for (const turns of moments) {
    const id = `at-${turns}`;
    await begin(engine, runnable, {}, { executionId: id }, unchecked);
    expect(await engine.settled(id, 0)).toMatchObject({ status: "suspended" });
    clock.skip(3_600_000);
    await take(turns);
    await setImmediate();
    const cancelled = await engine.cancel(id, "no more");
    for (let state = await engine.state(id); ; state = await engine.state(id)) {
      if (state?.status !== "completed" && state?.status !== "error") continue;
      expect(state.status === "error", id).toBe(cancelled !== false);
      ends[state.status]++;
      break;
    }
  }
  await close(1_000);
  expect(complaints()).toEqual([]);
  expect(ends.error).toBeGreaterThan(0);
});

it("cancels an execution that the server suspends at the same time, because its workflow has changed", async () => {
  const before = defineWorkflow({ id: "sleeps" }).andSleep({ id: "nap", duration: "1h" });
  const after = defineWorkflow({ id: "sleeps" }).andSleep({ id: "another", duration: "1h" });
  for (const turns of moments) {
    const id = `at-${turns}`;
    const file = newFile();
    const clock = new FastClock();
    const first = await open(before, file, clock);
    await begin(first.engine, first.runnable, {}, { executionId: id }, unchecked);
    await first.engine.settled(id, 0);
    await first.close(1_000);
    const { engine, close } = await open(after, file, clock);
    clock.skip(3_600_000);
    await take(turns);
    expect(await engine.cancel(id, "no more"), id).toMatchObject({ status: "error" });
    await close(1_000);
  }
});

it("records nothing after a cancel that comes at once with a resume and the end of another wait", async () => {
  const definition = defineWorkflow({ id: "asks" }).andAll({
    id: "both",
    steps: [
      andSleep({ id: "nap", duration: "1h" }),
      andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend("ask") }),
    ],
  });
  const { engine, runnable, complaints, close, clock } = await open(definition);
  let cancelled = 0;
  for (const turns of moments) {
    const id = `at-${turns}`;
    await begin(engine, runnable, {}, { executionId: id }, unchecked);
    const state = await engine.settled(id, 0);
    while (engine.isRunning("asks")) await setImmediate(); // until its run is forgotten
    const resumed = resume(engine, runnable, state, { resumeData: 1 }).catch(() => undefined);
    const answer = engine.cancel(id, "no more");
    clock.skip(3_600_000);
    await take(turns);
    await resumed;
    if (await answer) cancelled++;
    for (let turn = 0; turn < 30; turn++) await setImmediate();
    const rows = [];
    for await (const page of engine.history(id)) rows.push(...page);
    const last = rows.findIndex(({ events }) => events.some(({ type }) => type === "workflow-error"));
    expect(last < 0 ? [] : rows.slice(last + 1), `${id}: rows after the cancel`).toEqual([]);
  }
  await close(1_000);
  expect(complaints()).toEqual([]);
  expect(cancelled).toBeGreaterThan(0);
});

it("starts no attempt after a suspend was answered, when its retry delay ends at the same time", async () => {
  const attempts = new Map<string, number>();
  const definition = defineWorkflow({ id: "retries" }).andThen({
    id: "fails",
    retry: { attempts: 9, delay: 3_600_000 },
    execute({ executionId }) {
      attempts.set(executionId, (attempts.get(executionId) ?? 0) + 1);
      throw new Error("once more");
    },
  });
  const file = newFile();
  const { engine, runnable, complaints, close, clock } = await open(definition, file);
  for (const turns of moments) {
    const id = `at-${turns}`;
    await begin(engine, runnable, {}, { executionId: id }, unchecked);
    while (!isResting(file)) await setImmediate();
    clock.skip(3_600_000);
    await take(turns);
    await setImmediate();
    const answered = await engine.suspend(id, "outside");
    const begun = attempts.get(id);
    expect(answered, id).toMatchObject({ status: "suspended" });
    for (let turn = 0; turn < 30; turn++) {
      expect(await engine.state(id), `${id}: ${turn} turns later`).toMatchObject({ status: "suspended", epoch: 1 });
      await setImmediate();
    }
    expect(attempts.get(id), `${id}: attempts after the suspend`).toBe(begun);
    await engine.cancel(id, "no more");
  }
  await close(1_000);
  expect(complaints()).toEqual([]);
});

it("gives the place in a group back when an execution is cancelled during its retry delay", async () => {
  const definition = defineWorkflow({ id: "one", concurrency: { limit: 1 } }).andThen({
    id: "fails",
    retry: { attempts: 2, delay: 3_600_000 },
    execute({ executionId }) {
      if (executionId === "first") throw new Error("once more");
      return "done";
    },
  });
  const file = newFile();
  const { engine, runnable, close } = await open(definition, file);
  await begin(engine, runnable, {}, { executionId: "first" }, unchecked);
  while (!isResting(file)) await setImmediate();
  await begin(engine, runnable, {}, { executionId: "second" }, unchecked);
  expect(await engine.state("second")).toMatchObject({ status: "running" });
  expect(await engine.cancel("first", "no more")).toMatchObject({ status: "error" });
  expect(await engine.settled("second", 0)).toMatchObject({ status: "completed" });
  await close(1_000);
});

/** Whether an execution waits for the end of its delay in the file, and has no run. */
function isResting(file: string): boolean {
  const db = new DatabaseSync(file, { readOnly: true });
  const found = db.prepare("select 1 from timers").get();
  db.close();
  return found !== undefined;
}
