// oxlint-disable vitest/no-standalone-expect -- the checks are run inside a test
import { expect } from "vitest";
import { unchecked } from "../../../src/core/caller.ts";
import type { WorkflowDefinition } from "../../../src/engine/definition.ts";
import { begin } from "../../../src/workflows/executions.ts";
import { patienceMs } from "../../harness/patience.ts";
import { checkJournal, type Stored } from "./journal.ts";
import type { Outcomes } from "./make.ts";
import { follow, Luck, play, type Book, type Tally, type World } from "./play.ts";

export const input = { question: [1, 2] };
/** Several executions of a tree at once: what they write shares transactions. */
export const ids: readonly string[] = ["first", "second", "0199a8b0-0000-7000-8000-000000000003"];
export const noTally = (): Tally => ({
  completed: 0,
  error: 0,
  cancelled: 0,
  suspensions: 0,
  external: 0,
  wentBack: 0,
  twoAtOnce: 0,
  rows: 0,
  events: 0,
});

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
  const played = ids.map(async (id) => {
    const own = new Luck(luck.pick(2 ** 32));
    if (fresh) await begin(world.engine, world.runnable, input, { executionId: id }, unchecked);
    const listening = own.chance(0.5) ? follow(world, id, signal) : undefined;
    await play(world, id, own, tally, cancels);
    seen.set(id, await (listening ?? follow(world, id, signal)));
  });
  try {
    const failed = (await Promise.allSettled(played)).find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  } finally {
    over.abort();
    await world.close(1_000);
  }
  expect(world.complaints(), "what the engine complained about").toEqual([]);
  expect(world.held(), "walks that were not let go").toBe(0);
  return seen;
}

export function check(
  stored: ReadonlyMap<string, Stored>,
  definition: WorkflowDefinition,
  book: Book,
  outcomes: Outcomes | undefined,
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
    launches.set(key, (launches.get(key) ?? 0) + 1);
  }
  expect(Object.fromEntries(book.byIdempotencyKey), "calls of code, and launches").toEqual(
    Object.fromEntries(launches),
  );
  expect([...stored.keys()].toSorted()).toEqual(ids.toSorted());
  for (const [id, one] of stored) {
    try {
      const before = kept.get(id) ?? { rows: [], events: [] };
      const again = before.rows.filter(({ key }) => book.byEntry.has(`${id}/${key}`)).map(({ key }) => key);
      expect(again, "recorded before the crash, and run again").toEqual([]);
      expect(one.rows.slice(0, before.rows.length)).toEqual(before.rows);
      expect(one.events.slice(0, before.events.length), "events before the crash").toEqual(before.events);
      expect(seen.get(id), "what a reader saw").toEqual(one.events);
      checkJournal(one, definition, book);
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

function checkOutcome({ last }: Stored, outcomes: Outcomes | undefined): void {
  const { to, result, error, cancellation } = JSON.parse(last!);
  if (cancellation || !outcomes) return;
  if (to === "completed") expect([...outcomes.values], "the result").toContain(result);
  else expect([...outcomes.errors], "the error").toContain(error.message);
}
