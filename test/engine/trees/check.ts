// oxlint-disable vitest/no-standalone-expect -- the checks are run inside a test
import { expect } from "vitest";
import { unchecked } from "../../../src/core/caller.ts";
import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";
import { begin } from "../../../src/workflows/executions.ts";
import { patienceMs } from "../../harness/patience.ts";
import { Luck } from "./luck.ts";
import { silent, type Tree } from "./make.ts";
import { checkJournal } from "./oracle/journal.ts";
import type { Outcomes } from "./oracle/outcomes.ts";
import { checkSteps } from "./oracle/steps.ts";
import { checkSuspensions } from "./oracle/suspensions.ts";
import { copiesOf, type Stored } from "./oracle/stored.ts";
import type { Book } from "./play/book.ts";
import { play } from "./play/play.ts";
import type { Tally } from "./play/tally.ts";
import { follow, type World } from "./play/world.ts";

export const input = { question: [1, 2] };
/** Several executions of a tree at once: what they write shares transactions. */
const ids: readonly string[] = ["first", "second", "0199a8b0-0000-7000-8000-000000000003"];

/** Answers what a reader of each execution saw: one who listened all the while, or who came when it was over. */
export async function playAll(
  world: World,
  luck: Luck,
  cancels: boolean,
  tally: Tally,
  fresh: boolean,
): Promise<Map<string, unknown[]>> {
  const seen = new Map<string, unknown[]>();
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, AbortSignal.timeout(patienceMs)]);
  const { executions } = world.book;
  if (fresh) executions.push(...ids);
  const played = executions.map(async (id) => {
    const own = new Luck(luck.pick(2 ** 32));
    if (fresh) await begin(world.engine, world.runnable, input, { executionId: id }, unchecked);
    let isOver = false;
    const listening = own.chance(0.5) ? follow(world, id, signal, () => isOver) : undefined;
    await play(world, id, own, tally, cancels).finally(() => (isOver = true));
    seen.set(id, await (listening ?? follow(world, id, signal)));
  });
  try {
    const failed = (await Promise.allSettled(played)).find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
    for (const id of executions) if (!seen.has(id)) seen.set(id, await follow(world, id, signal));
  } finally {
    over.abort();
    await world.close(1_000);
  }
  expect(world.complaints(), "what the engine complained about").toEqual([]);
  expect(world.held(), "walks that were not let go").toBe(0);
  return seen;
}

/** A tree, and how it may end. */
export interface Expected {
  readonly tree: Tree;
  readonly outcomes: Outcomes | undefined;
}

export function check(
  stored: ReadonlyMap<string, Stored>,
  definition: WorkflowDefinition,
  book: Book,
  { tree, outcomes }: Expected,
  tally: Tally,
  seen: Map<string, unknown[]>,
  kept: Map<string, Stored>,
): void {
  expect(book.problems, "what the steps saw").toEqual([]);
  const twice = [...book.byEntry].filter(([, times]) => times > 1);
  expect(twice, "entries that were launched twice").toEqual([]);
  const launches = new Map<string, number>();
  for (const entry of book.byEntry.keys()) {
    const key = entry.replace(/#\d+$/, "");
    if (isSilent.test(key)) continue;
    launches.set(key, (launches.get(key) ?? 0) + 1);
  }
  expect(Object.fromEntries(book.byIdempotencyKey), "calls of code, and launches").toEqual(
    Object.fromEntries(launches),
  );
  expect([...stored.keys()].toSorted()).toEqual(book.executions.toSorted());
  for (const [id, one] of stored) {
    try {
      const before = kept.get(id) ?? { rows: [], events: [] };
      const again = before.rows.filter(({ key }) => book.byEntry.has(`${id}/${key}`)).map(({ key }) => key);
      expect(again, "recorded before the crash, and run again").toEqual([]);
      expect(one.rows.slice(0, before.rows.length)).toEqual(before.rows);
      expect(one.events.slice(0, before.events.length), "events before the crash").toEqual(before.events);
      expect(seen.get(id), "what a reader saw").toEqual(one.events);
      checkJournal(one, definition, book);
      checkSuspensions(one, tree);
      checkSteps(one, definition, tree);
      const copied = one.rows.slice(0, copiesOf(one)).map(({ key }) => key);
      expect(
        copied.filter((key) => book.byEntry.has(`${id}/${key}`)),
        "copied from the original, and run",
      ).toEqual([]);
      checkOutcome(one, outcomes);
    } catch (error) {
      const rows = one.rows.map(({ key, kind, at, body, seq, events }) =>
        [key, kind, at, body, seq, events].join("  "),
      );
      const after = kept.has(id) ? ` (recovered from its first ${kept.get(id)!.rows.length} rows)` : "";
      throw new Error(`${id}${after}: ${(error as Error).message}\n\nIts journal:\n${rows.join("\n")}`, {
        cause: error,
      });
    }
    tally.rows += one.rows.length;
    tally.events += one.events.length;
  }
}

/** The beginning of a loop over `data`, which has no code of ours. */
const isSilent = new RegExp(`/${silent}\\d+\\?(@\\d+)?$`);

function checkOutcome({ last }: Stored, outcomes: Outcomes | undefined): void {
  const { to, result, error, cancellation } = JSON.parse(last!);
  if (cancellation || !outcomes) return;
  if (to === "completed") expect([...outcomes.values], "the result").toContain(result);
  else expect([...outcomes.errors], "the error").toContain(error.message);
}
