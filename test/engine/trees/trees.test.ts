import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { andThen, defineWorkflow, type StepContext } from "agentserve";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { unchecked } from "../../../src/core/caller.ts";
import { begin } from "../../../src/workflows/executions.ts";
import { resume } from "../../../src/workflows/resume.ts";
import { bySize } from "../../harness/size.ts";
import { patienceMs } from "../../harness/patience.ts";
import { check, input, playAll, type Expected } from "./check.ts";
import { cutCopy, longestOf } from "./cut.ts";
import { toWorkflow } from "./code.ts";
import { plainTree, print, tree, type Tree } from "./make.ts";
import { Luck } from "./luck.ts";
import { checkJournal } from "./oracle/journal.ts";
import { outcomesOf } from "./oracle/outcomes.ts";
import { readFile, type Stored } from "./oracle/stored.ts";
import { Book } from "./play/book.ts";
import { FastClock } from "./play/clock.ts";
import { noTally, type Tally } from "./play/tally.ts";
import { openWorld } from "./play/world.ts";

const folder = mkdtempSync(join(tmpdir(), "agentserve-trees-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }), 60_000);
let files = 0;
const newFile = (): string => join(folder, `${files++}.db`);

/** A journal with so many rows is cut after each of them, a longer one so many times. */
const shortRows = bySize(5, 12);
const someCuts = bySize(1, 2);

const timeout = bySize(300_000, 1_800_000);
const limit = { interruptAfterTimeLimit: timeout - 20_000, markInterruptAsFailure: true };

it(
  "runs any tree to a legal end, and goes on from any row of its journal: same events, same result, nothing twice",
  () => checkTrees(tree, bySize(5, 1_000), false),
  timeout,
);

it("does so without loops and waits", () => checkTrees(plainTree, bySize(5, 700), false), timeout);

it("does so when executions are cancelled, too", () => checkTrees(tree, bySize(3, 400), true), timeout);

async function checkTrees(trees: fc.Arbitrary<Tree>, numRuns: number, cancels: boolean): Promise<void> {
  const tally = noTally();
  const known = { one: 0, several: 0, unknown: 0 };
  await fc.assert(
    fc.asyncProperty(trees, fc.nat(), async (nodes, seed) => {
      const outcomes = outcomesOf(nodes, JSON.stringify(input));
      const ways = outcomes && outcomes.values.size + outcomes.errors.size;
      known[ways === undefined ? "unknown" : ways === 1 ? "one" : "several"]++;
      try {
        await checkTree({ tree: nodes, outcomes }, new Luck(seed), tally, cancels);
      } catch (error) {
        const { message } = error as Error;
        throw new Error(`${message}\n\nThe tree (luck ${seed}):\n${print(nodes)}\n`, { cause: error });
      }
    }),
    { numRuns, ...limit },
  );
  console.log(`${numRuns} trees`, JSON.stringify({ ...tally, outcomes: known }));
  // Few trees do not always have all of it in them.
  if (numRuns < 100) return;
  const seen = [
    tally.completed,
    tally.suspensions,
    ...(cancels ? [tally.cancelled] : [tally.error, tally.wentBack, tally.retried]),
    ...(trees === tree ? [tally.timed, tally.sent] : []),
    tally.forked,
  ];
  expect(Math.min(...seen, tally.external)).toBeGreaterThan(0);
}

async function checkTree(expected: Expected, luck: Luck, tally: Tally, cancels: boolean): Promise<void> {
  const clock = new FastClock();
  const book = new Book(clock);
  const definition = toWorkflow("tree", expected.tree, book);
  const whole = newFile();
  const world = await openWorld(whole, definition, book, { clock });
  const seen = await playAll(world, luck, cancels, tally, true);
  check(readFile(whole), definition, book, expected, tally, seen, new Map());

  // A short journal is cut after each of its rows, a long one after some; the last of them again.
  const executions = [...book.executions];
  const rows = longestOf(whole);
  const ends = rows <= shortRows ? Array.from({ length: rows + 1 }, (_, end) => end) : Array(someCuts).fill(undefined);
  let last = whole;
  for (const end of ends) last = await crash(whole, end);
  await crash(last);

  async function crash(from: string, end?: number): Promise<string> {
    const cut = newFile();
    const kept = cutCopy(from, cut, definition, (most) => end ?? luck.pick(most + 1));
    book.clear();
    if (from === whole) book.executions.splice(0, Infinity, ...executions); // without the forks of other copies
    const recovered = await openWorld(cut, definition, book, { clock });
    const seenAgain = await playAll(recovered, luck, cancels, tally, false);
    check(readFile(cut), definition, book, expected, tally, seenAgain, kept);
    tally.crashes++;
    return cut;
  }
}

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

it("starts nothing for a resume that is decided and not yet in the file", async () => {
  const book = new Book();
  const begun = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  let loserEnds = (): void => {};
  const definition = defineWorkflow({ id: "in-turn" })
    .andThen({
      id: "a",
      execute({ executionId, signal }): Promise<void> | undefined {
        begun.resolve();
        if (executionId === "asks") return undefined;
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      },
    })
    .andRace({
      id: "r",
      steps: [
        andThen({ id: "winner", execute: () => 1 }),
        andThen({ id: "loser", execute: () => gate.promise.then(() => loserEnds()) }),
      ],
    })
    .andThen({ id: "s", execute: ({ suspend }) => suspend("ask") });
  const file = newFile();
  const before = await openWorld(file, definition, book, { runningExecutions: 1 });
  await begin(before.engine, before.runnable, input, { executionId: "hangs" }, unchecked);
  await begun.promise;
  const suspended = await before.engine.suspend("hangs", "outside");
  await before.close(0);

  const { engine, runnable, close } = await openWorld(file, definition, book, { runningExecutions: 1 });
  await begin(engine, runnable, input, { executionId: "asks" }, unchecked);
  await engine.settled("asks", 0); // it keeps the only place, because of the loser
  const resumed = Promise.withResolvers<unknown>();
  loserEnds = () => resumed.resolve(suspended && engine.resume("hangs", suspended.epoch, {}, runnable));
  gate.resolve();
  expect(await resumed.promise).toMatchObject({ status: "running" });
  await later(10, "immediates");
  expect(book.byEntry.get("hangs/a#1")).toBe(2);
  await close(0);
  expect(book.problems).toEqual([]);
});

// A suspend that lands in the very transaction of a step's entry, or of the completion.

const moments = Array.from({ length: 11 }, (_, turns) => turns).flatMap((turns) =>
  (["microtasks", "immediates"] as const).flatMap((kind) =>
    Array.from({ length: bySize(4, 40) }, (_, run) => ({ id: `${turns}-${kind}-${run}`, turns, kind })),
  ),
);

/** The same executions for several tests, which only look at them. */
const pairs = { first: once(() => suspendPairs("first")), last: once(() => suspendPairs("last")) };

it.each(["first", "last"] as const)(
  "answers a suspend at the end of the %s step either way, with one legal outcome and no step begun after it",
  async (at) => {
    const { won, lost, stored } = await pairs[at]();
    console.log(`suspend at the end of the ${at} step: won ${won}, lost ${lost}`);
    expect(Math.min(won, lost)).toBeGreaterThan(0);
    for (const [id, one] of stored) expect(JSON.parse(one.last!), id).toMatchObject({ to: "completed", result: '"b"' });
  },
);

it.each(["first", "last"] as const)(
  "names the step in flight or the next one when it is suspended at the end of the %s step",
  async (at) => {
    const { stored } = await pairs[at]();
    for (const [id, { events }] of stored) {
      const index = events.findIndex(({ type }) => type === "workflow-suspended");
      if (index < 0) continue;
      const { stepId } = events[index]!["suspension"] as { stepId: string };
      const before = events.slice(0, index).filter(({ type }) => type === "step-complete");
      // When both are complete there is no next one.
      if (before.length < 2)
        expect(
          before.map(({ from }) => from),
          `${id}: suspended at ${stepId}`,
        ).not.toContain(stepId);
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

/** A function that is called once, whoever asks for its result. */
function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

async function later(turns: number, kind: "microtasks" | "immediates"): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await (kind === "immediates" ? setImmediate() : null);
}
