import { defineWorkflow } from "agentserve";
import { expect, it, onTestFinished } from "vitest";
import { unchecked } from "../../src/core/caller.ts";
import { begin } from "../../src/workflows/executions.ts";
import { patienceMs } from "../harness/patience.ts";
import { Book } from "./trees/play/book.ts";
import { openWorld } from "./trees/play/world.ts";
import { newFile } from "../harness/folders.ts";

it("keeps a cancelled execution ended, whatever is decided in the same turn of the event loop", async () => {
  const definition = defineWorkflow({ id: "ask" }).andThen({
    id: "s",
    execute: ({ suspend, resumeData }) => (resumeData === undefined ? suspend() : new Promise(() => {})),
  });
  const { engine, runnable, close } = await openWorld(newFile(), definition, new Book());
  onTestFinished(() => close(0));

  for (const second of ["suspend", "cancel"] as const) {
    const { id } = await begin(engine, runnable, {}, {}, unchecked);
    const { epoch } = await engine.settled(id, 0);
    const cancelled = engine.cancel(id, "no more");
    const resumed = engine.resume(id, epoch, { data: "1" }, runnable);
    // The resume needs some microtasks to load the run; then another decision is made about it.
    let other: ReturnType<typeof engine.cancel> | undefined;
    for (let turns = 0; turns < 50; turns++) {
      await Promise.resolve();
      if (turns === 40) other = engine[second](id, "once more");
    }
    expect(await cancelled).toMatchObject({ status: "error", epoch: epoch + 1 });
    expect(await resumed).toBe(false);
    expect(await other).toBe(false);
    expect(await engine.state(id)).toMatchObject({ status: "error", last: { cancellation: { reason: "no more" } } });
    expect(engine.isRunning("ask")).toBe(false);
  }
});

it("refuses a resume that was checked against an earlier suspension", async () => {
  const definition = defineWorkflow({ id: "ask" }).andThen({ id: "s", execute: ({ suspend }) => suspend() });
  const { engine, runnable, close } = await openWorld(newFile(), definition, new Book());
  onTestFinished(() => close(0));
  const { id } = await begin(engine, runnable, {}, {}, unchecked);
  const { epoch } = await engine.settled(id, 0);
  expect(await engine.resume(id, epoch, { data: "1" }, runnable)).toMatchObject({ epoch: epoch + 1 });
  const again = await engine.settled(id, epoch + 1);
  expect(again).toMatchObject({ status: "suspended", epoch: epoch + 2 });
  expect(await engine.resume(id, epoch, { data: "2" }, runnable)).toBe(false);
  expect(await engine.state(id)).toMatchObject({ status: "suspended", epoch: again.epoch });
});

it("keeps the result of a step that ends while its execution is suspended, and numbers its events without a gap", async () => {
  let runs = 0;
  const [begun, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const definition = defineWorkflow({ id: "slow" }).andThen({
    id: "s",
    execute() {
      runs++;
      begun.resolve();
      return gate.promise;
    },
  });
  const { engine, runnable, close } = await openWorld(newFile(), definition, new Book());
  onTestFinished(() => close(0));
  const { id } = await begin(engine, runnable, {}, {}, unchecked);
  await begun.promise;
  expect(await engine.suspend(id, "hold")).toMatchObject({ status: "suspended", epoch: 1 });
  gate.resolve("kept");
  expect(await engine.resume(id, 1, {}, runnable)).toMatchObject({ status: "running", epoch: 2 });
  expect(await engine.settled(id, 2)).toMatchObject({ status: "completed", last: { result: '"kept"' } });
  expect(runs).toBe(1);
  const seqs: unknown[] = [];
  for await (const { seq } of engine.events(id, 0, AbortSignal.timeout(patienceMs))) seqs.push(seq);
  expect(seqs).toEqual([1, 2, 3, 4, 5]);
});

it("does not time a step out at once whose time limit is longer than a timer can be", async () => {
  const definition = defineWorkflow({ id: "patient" }).andThen({
    id: "s",
    timeout: 2 ** 40,
    execute: () => new Promise((resolve) => setTimeout(() => resolve("done"), 20)),
  });
  const { engine, runnable, close } = await openWorld(newFile(), definition, new Book());
  onTestFinished(() => close(0));
  const { id } = await begin(engine, runnable, {}, {}, unchecked);
  expect(await engine.settled(id, 0)).toMatchObject({ status: "completed", last: { result: '"done"' } });
});
