// Any shape of workflow, played by requests at random moments, and again from any row of its journal. The oracle knows the
// tree and the rows, not the engine. It finds faults that need a shape and a moment: a resume that answers a step which still
// waits, a step that starts before its commit. Answers to requests have tests of their own in `test/workflows`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { bySize } from "../../harness/size.ts";
import { check, input, playAll, type Expected } from "./check.ts";
import { cutCopy, longestOf } from "./cut.ts";
import { toWorkflow } from "./code.ts";
import { plainTree, print, tree, type Tree } from "./make.ts";
import { Luck } from "./luck.ts";
import { outcomesOf } from "./oracle/outcomes.ts";
import { readFile } from "./oracle/stored.ts";
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

/** A safety net: it does not depend on the size, because a busy machine may take many times as long. */
const timeout = 1_800_000;
const limit = { interruptAfterTimeLimit: timeout - 20_000, markInterruptAsFailure: true };

it(
  "runs any tree to a legal end, and continues from any row of its journal: same events, same result, nothing twice",
  () => checkTrees(tree, bySize(3, 20), false),
  timeout,
);

it(
  "runs any tree without loops and waits to a legal end, and continues from any row of its journal",
  () => checkTrees(plainTree, bySize(3, 12), false),
  timeout,
);

it(
  "runs any tree to a legal end when executions are cancelled, and continues from any row of its journal",
  () => checkTrees(tree, bySize(2, 8), true),
  timeout,
);

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
