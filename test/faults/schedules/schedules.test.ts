// Schedules by the clock of the machine, while the server is killed: each tick begins once.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { patienceMs } from "../../harness/patience.ts";
import { bySize } from "../../harness/size.ts";
import { startHost } from "../../harness/start-host.ts";
import { until } from "../../harness/waiting.ts";

/** The lives of the server, and the time for which each of them serves. */
const lives = bySize(3, 9);
const lifeMs = bySize(2_500, 7_000);

let folder = "";

const readLog = (): string[] => readFileSync(join(folder, "log"), "utf8").trimEnd().split("\n");
/** The ticks of a schedule whose executions have ended, in their order. */
const ended = (id: string): number[] => toTicks("two", id);
const toTicks = (what: "two" | "left", id: string): number[] => {
  const prefix = `${what} schedule:${id}:`;
  const lines = readLog().filter((line) => line.startsWith(prefix));
  return [...new Set(lines.map((line) => Date.parse(line.slice(prefix.length))))].toSorted((a, b) => a - b);
};

it(
  `each tick begins once in ${lives} lives of ${lifeMs} ms that end by SIGKILL; what was missed is made up by catchUp only`,
  { timeout: lives * lifeMs + 4 * patienceMs },
  async () => {
    folder = createFolder("schedules");
    const start = () => startHost(join(import.meta.dirname, "ticks-app.ts"), { folder });
    /** The times without a server: from a moment when one was surely there, to one when the next was surely there. */
    const gaps: [number, number][] = [];
    for (let life = 0; life < lives; life++) {
      const begin = Date.now();
      const host = await start();
      await until(() => ended("every").some((at) => at > begin), "a tick of this life");
      const up = Date.now();
      if (life > 0) gaps.at(-1)![1] = up;
      await sleep(lifeMs);
      gaps.push([Date.now(), Infinity]);
      await host.end();
      await sleep(1_500);
    }
    const from = Date.now();
    const last = await start();
    /** The ticks until now that have ended or were left out, and those that were due. */
    const known = (id: string): number[] =>
      [...ended(id), ...toTicks("left", id)].filter((at) => at <= from).toSorted((a, b) => a - b);
    const due = (id: string, ms: number): number[] => {
      const first = known(id)[0]!;
      return Array.from({ length: Math.floor((from - first) / ms) + 1 }, (_, index) => first + index * ms);
    };
    const madeUp = [
      ["every", 1_000],
      ["cron", 2_000],
    ] as const;
    const isDone = (): boolean => madeUp.every(([id, ms]) => known(id).length >= due(id, ms).length);
    await until(() => isDone() && ended("missing").at(-1)! >= from, "the last ticks");
    gaps.at(-1)![1] = Date.now();
    await last.end();

    expect(toTicks("left", "every")).toEqual([]);
    for (const [id, ms] of madeUp) expect(known(id), id).toEqual(due(id, ms));
    // Each tick that is missing came while no server was there, and some did.
    const ticks = ended("missing");
    const between = Array.from(
      { length: (ticks.at(-1)! - ticks[0]!) / 1_000 },
      (_, index) => ticks[0]! + index * 1_000,
    );
    const missing = between.filter((at) => !ticks.includes(at));
    expect(missing.filter((at) => !gaps.some(([begin, end]) => at >= begin - 1_000 && at <= end))).toEqual([]);
    expect(missing.length).toBeGreaterThanOrEqual(lives);

    const db = new DatabaseSync(join(folder, "data.db"), { readOnly: true });
    const [row] = db.prepare("select count(*) as count, sum(status = 'completed') as completed from executions").all();
    db.close();
    console.log(`${lives} kills: ${row!["count"]} executions, ${missing.length} missed ticks`);
    expect(row!["completed"]).toBeGreaterThanOrEqual(Number(row!["count"]) - 3); // the last kill may have interrupted some
    // A step runs again only if a kill has interrupted it.
    const lines = readLog();
    expect(lines.length - new Set(lines).size).toBeLessThanOrEqual(3 * (lives + 1));
  },
);
