// Each of these changes makes a test of this file fail: a tool that starts before its model call is recorded; a record that
// is not found again, or is found for another call; a key that differs after a crash; a tool whose result is shown to the
// model before it is recorded.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { bySize } from "../../harness/size.ts";
import { Lives } from "../agents/lives.ts";
import { readLog } from "../agents/log.ts";
import { Random } from "../kills/plan.ts";
import { createTurnProvider } from "./model.ts";
import { targets } from "./target.ts";
import { checkTurn, type ToolRun } from "./turn.ts";

const seed = Number(process.env["SEED"] ?? Date.now() % 1_000_000);
afterAll(() => console.log(`SEED=${seed}`));

describe.each(targets)("a turn of $name", (target) => {
  it("survives kill -9 at random moments: recorded calls are not made again", { timeout: 1_800_000 }, async () => {
    const outer = mkdtempSync(join(tmpdir(), "agentserve-turns-"));
    onTestFinished(() => rmSync(outer, { recursive: true, force: true }));
    const folder = join(outer, "data"); // beside it is the compile cache
    mkdirSync(folder);
    const provider = await createTurnProvider();
    onTestFinished(() => provider.close());
    writeFileSync(join(folder, "provider"), provider.baseURL);
    const lives = new Lives(folder, join(import.meta.dirname, "host.ts"));
    onTestFinished(() => lives.close());
    const readRuns = (): ToolRun[] => readLog(join(folder, "log")) as unknown as ToolRun[]; // what this host writes
    const random = new Random(seed);
    const crew = { more: true };
    const inFlight = new Set<string>();
    const answers = new Map<string, string>();
    /** By turn: the life at whose end the file had a tool call for the first time. */
    const recordedIn = new Map<string, Map<string, number>>();

    async function play(worker: number): Promise<void> {
      for (let n = 0; crew.more; n++) {
        const id = `turn-${worker}-${n}`;
        recordedIn.set(id, new Map());
        inFlight.add(id);
        answers.set(id, await target.play(lives, id));
        inFlight.delete(id);
      }
    }
    /** The process must have ended. */
    function look(): void {
      for (const id of inFlight) {
        const known = recordedIn.get(id)!;
        for (const one of target.recordedTools(join(folder, "data.db"), id))
          if (!known.has(one)) known.set(one, lives.life);
      }
    }

    const working = lives.watch(Promise.all([1, 2, 3].map(play)));
    for (let kill = 0; kill < bySize(5, 100); kill++) {
      await lives.start();
      const { length } = readRuns();
      await lives.until("tools to run", () => readRuns().length > length);
      await lives.within("a moment", sleep(random.between(0, 150)));
      await lives.kill();
      look();
    }
    crew.more = false;
    await lives.start();
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
