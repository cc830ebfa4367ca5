// Each of these changes makes a test of this file fail: a tool that starts before its model call is recorded; a record that
// is not found again, or is found for another call; a key that differs after a crash; a tool whose result is shown to the
// model before it is recorded; a turn of a conversation that ends with its process, or whose answer is stored twice.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { openLives } from "../agents/lives.ts";
import { Random } from "../kills/plan.ts";
import { createTurnProvider } from "./model.ts";
import { recordedTools, targets } from "./target.ts";
import { checkTurn, type ToolRun } from "./turn.ts";

describe.each(targets)("a turn of $name", (target) => {
  it("makes no recorded call of a turn again over kill -9 at random moments", { timeout: 1_800_000 }, async () => {
    const { folder, lives, log: readRuns } = openLives<ToolRun>("turns", join(import.meta.dirname, "planner-app.ts"));
    const provider = await createTurnProvider();
    onTestFinished(() => provider.close());
    writeFileSync(join(folder, "provider"), provider.baseURL);
    const random = new Random(seed);
    const crew = { more: true };
    const inFlight = new Set<string>();
    const answers = new Map<string, string>();
    /** By turn: the life at whose end the file had a tool call for the first time. */
    const recordedIn = new Map<string, Map<string, number>>();
    /** The kills that have found a turn in flight. */
    const interrupted = new Map<string, number>();

    async function play(worker: number): Promise<void> {
      for (let n = 0; crew.more; n++) {
        const id = `turn-${worker}-${n}`;
        recordedIn.set(id, new Map());
        inFlight.add(id);
        const answer = await target.play(lives, id);
        if (answer !== undefined) answers.set(id, answer);
        // Only crashes end it without an answer.
        else expect(interrupted.get(id), id).toBeGreaterThanOrEqual(3);
        inFlight.delete(id);
      }
    }
    /** The process must have ended. */
    function look(): void {
      for (const id of inFlight) {
        const known = recordedIn.get(id)!;
        const found = recordedTools(target, join(folder, "data.db"), id);
        if (found) interrupted.set(id, (interrupted.get(id) ?? 0) + 1);
        for (const one of found ?? []) if (!known.has(one)) known.set(one, lives.life);
      }
    }

    const working = lives.watch(Promise.all([1, 2, 3].map(play)));
    await lives.killOften({
      kills: bySize(3, 20),
      // A turn that makes no progress in three lives is ended.
      isAtWork: () => lives.untilMore("tools to run", () => readRuns().length, 3),
      moment: () => random.between(0, 150),
      onKilled: look,
    });
    crew.more = false;
    await lives.within("all turns to end", working);

    const runs = Map.groupBy(readRuns(), ({ turn }) => turn);
    let repeated = 0;
    for (const [id, answer] of answers) {
      const own = runs.get(id) ?? [];
      const requests = provider.requests(id);
      checkTurn({ id, answer, requests, runs: own, recordedIn: recordedIn.get(id)! });
      repeated += new Set([...own, ...requests].map(({ life }) => life)).size - 1;
    }
    // Otherwise it would show nothing.
    expect(repeated).toBeGreaterThan(0);
  });
});
