import { setImmediate } from "node:timers/promises";
import { defineWorkflow, type StepContext } from "agentserve";
import { expect, it } from "vitest";
import { unchecked } from "../../src/core/caller.ts";
import { begin } from "../../src/workflows/executions.ts";
import { resume } from "../../src/workflows/resume.ts";
import { bySize } from "../harness/size.ts";
import { patienceMs } from "../harness/patience.ts";
import { input } from "./trees/check.ts";
import { checkJournal } from "./trees/oracle/journal.ts";
import { readFile, type Stored } from "./trees/oracle/stored.ts";
import { Book } from "./trees/play/book.ts";
import { openWorld } from "./trees/play/world.ts";
import { newFile } from "../harness/folders.ts";

it("stores the event of a cancel that follows at once on a suspend", async () => {
  const book = new Book();
  const failed = Promise.withResolvers<void>();
  const definition = defineWorkflow({ id: "waits" }).andThen({
    id: "a",
    retry: { attempts: 2, delay: 600_000 }, // nothing is in flight until then
    execute() {
      failed.resolve();
      throw new Error("the first attempt");
    },
  });
  const file = newFile();
  const world = await openWorld(file, definition, book);
  const { engine, runnable } = world;
  await begin(engine, runnable, input, { executionId: "x" }, unchecked);
  await failed.promise;
  await later(10, "immediates");
  expect(await engine.suspend("x", "outside")).toMatchObject({ status: "suspended" });
  expect(await engine.cancel("x", "no more")).toMatchObject({ status: "error" });
  await later(10, "immediates");
  const seen: string[] = [];
  for await (const { seq, type } of engine.events("x", 0, AbortSignal.timeout(patienceMs))) seen.push(`${seq} ${type}`);
  await world.close(1_000);
  expect(seen).toEqual(["1 workflow-start", "2 step-start", "3 workflow-suspended", "4 workflow-error"]);
  checkJournal(readFile(file).get("x")!, definition, book);
});

it("keeps the numbers of events when what was suspended is cancelled after a restart", async () => {
  const book = new Book();
  const begun = Promise.withResolvers<void>();
  const definition = defineWorkflow({ id: "hangs" }).andThen({
    id: "a",
    execute: ({ signal }): Promise<void> => {
      begun.resolve();
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  });
  const file = newFile();
  const before = await openWorld(file, definition, book);
  await begin(before.engine, before.runnable, input, { executionId: "x" }, unchecked);
  await begun.promise;
  expect(await before.engine.suspend("x", "outside")).toMatchObject({ status: "suspended" });
  const seen: unknown[] = [];
  for await (const event of before.engine.events("x", 0, AbortSignal.timeout(patienceMs))) seen.push(event);
  await before.close(0);
  const after = await openWorld(file, definition, book);
  expect(await after.engine.cancel("x", "no more")).toMatchObject({ status: "error" });
  await later(10, "immediates");
  await after.close(1_000);
  const { events } = readFile(file).get("x")!;
  expect(events.slice(0, seen.length), "what a reader had seen before the restart").toEqual(seen);
  checkJournal(readFile(file).get("x")!, definition, book);
});

// A suspend that lands in the very transaction of a step's entry, or of the completion.

const moments = Array.from({ length: 11 }, (_, turns) => turns).flatMap((turns) =>
  (["microtasks", "immediates"] as const).flatMap((kind) =>
    Array.from({ length: bySize(4, 40) }, (_, run) => ({ id: `${turns}-${kind}-${run}`, turns, kind })),
  ),
);

it.each(["first", "last"] as const)(
  "answers a suspend at the end of the %s step either way, names the step in flight or the next, and begins none after it",
  async (at) => {
    const { won, lost, stored } = await suspendPairs(at);
    console.log(`suspend at the end of the ${at} step: won ${won}, lost ${lost}`);
    expect(Math.min(won, lost)).toBeGreaterThan(0);
    for (const [id, { last, events }] of stored) {
      expect(JSON.parse(last!), id).toMatchObject({ to: "completed", result: '"b"' });
      const index = events.findIndex(({ type }) => type === "workflow-suspended");
      if (index < 0) continue;
      const { stepId } = events[index]!["suspension"] as { stepId: string };
      const completed = events.slice(0, index).flatMap(({ type, from }) => (type === "step-complete" ? from : []));
      // When both are complete there is no next one.
      if (completed.length < 2) expect(completed, `${id}: suspended at ${stepId}`).not.toContain(stepId);
    }
  },
);

/** Runs two steps and a suspend that is asked for from inside one of them, some turns later. */
async function suspendPairs(at: "first" | "last"): Promise<{ won: number; lost: number; stored: Map<string, Stored> }> {
  const book = new Book();
  let during = (): void => {};
  const execute =
    (name: string, hooked: boolean) =>
    ({ executionId, idempotencyKey }: StepContext): string => {
      book.called(executionId, idempotencyKey);
      if (hooked) during();
      return name;
    };
  const definition = defineWorkflow({ id: "pair" })
    .andThen({ id: "a", execute: execute("a", at === "first") })
    .andThen({ id: "b", execute: execute("b", at === "last") });
  const file = newFile();
  const world = await openWorld(file, definition, book);
  const { engine, runnable } = world;
  let won = 0;
  for (const { id, turns, kind } of moments) {
    const asked = Promise.withResolvers<Awaited<ReturnType<typeof engine.suspend>>>();
    during = () => void asked.resolve(later(turns, kind).then(() => engine.suspend(id, "now")));
    await begin(engine, runnable, input, { executionId: id }, unchecked);
    const [state, answer] = await Promise.all([engine.settled(id, 0), asked.promise]);
    expect(state.status, id).toBe(answer ? "suspended" : "completed");
    if (!answer) continue;
    won++;
    const begun = book.begun.get(id);
    await later(10, "immediates");
    expect(await engine.state(id), id).toMatchObject({ status: "suspended", epoch: answer.epoch });
    expect(book.begun.get(id), `${id}: steps begun after the suspend was answered`).toBe(begun);
    const { epoch } = await resume(engine, runnable, answer, {});
    expect(await engine.settled(id, epoch), id).toMatchObject({ status: "completed" });
  }
  await world.close(1_000);
  expect(world.complaints()).toEqual([]);
  expect(book.problems).toEqual([]);
  const stored = readFile(file);
  for (const one of stored.values()) checkJournal(one, definition, book);
  expect([...book.byIdempotencyKey.values()].every((times) => times === 1)).toBe(true);
  return { won, lost: moments.length - won, stored };
}

async function later(turns: number, kind: "microtasks" | "immediates"): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await (kind === "immediates" ? setImmediate() : null);
}
