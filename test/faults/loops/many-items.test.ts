import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { bySize } from "../../harness/size.ts";
import { startHost, type Host } from "../../harness/start-host.ts";
import { until } from "../../harness/waiting.ts";
import type { Figures } from "./many-items-app.ts";

const count = bySize(2_000, 10_000);
/** The kills while items end; and further ones when nearly all have ended, each followed by the longest replay. */
const kills = bySize(3, 20);
const replays = 4;
const concurrency = 20;

it(
  `records every item of ${count} once, while the process is killed ${kills + replays - 1} times`,
  async () => {
    const folder = createFolder("items");
    const log = () => readFileSync(join(folder, "log"), "utf8").trim().split("\n");
    const figures: Figures[] = [];

    const last = kills + replays;
    /** The last life ends all items. The ones before leave a few to it, so that its journal is as long as can be. */
    function endOf(life: number): number {
      if (life === last) return count;
      const most = Math.floor((count * life) / kills) - concurrency - replays;
      // One more in each: after three crashes without a result it would be suspended.
      return life <= kills ? most : count - concurrency - last + life;
    }

    const start = (life: number): Promise<Host> => {
      const onReport = (one: Figures): void => void (life > 1 && figures.push(one));
      const options = { folder, life, concurrency, end: endOf(life) };
      return startHost(join(import.meta.dirname, "many-items-app.ts"), options, {
        execArgv: ["--expose-gc"],
        onReport,
      });
    };

    let host = await start(1);
    const begun = await fetch(`${host.url}/workflows/many/execute`, {
      method: "POST",
      headers: { "content-type": "application/json", prefer: "respond-async" },
      body: JSON.stringify({ input: { count }, options: { executionId: "e" } }),
    });
    expect(begun.status).toBe(202);
    for (let life = 1; life < last; life++) {
      // While items end, or once those in flight do not.
      const lines = life <= kills ? endOf(life) - 7 * (life % 5) : count - concurrency;
      const own = life <= kills ? 1 : concurrency + 1; // it has ended one
      const isReady = (): boolean =>
        log().length >= lines && log().filter((line) => line.startsWith(`${life} `)).length >= own;
      await until(() => isReady() && figures.length === life - 1, `${lines} items and a replay`);
      await host.end();
      host = await start(life + 1);
    }
    const state = async (): Promise<any> =>
      ((await (await fetch(`${host.url}/workflows/many/executions/e/state`)).json()) as { data: unknown }).data;
    await until(async () => (await state()).status !== "running", "the end");
    expect(await state()).toMatchObject({ status: "completed", result: { count, isInOrder: true } });

    const effects = log().map((line) => line.split(" ").map(Number) as [life: number, index: number]);
    const times = new Map<number, number[]>();
    for (const [life, index] of effects) times.set(index, [...(times.get(index) ?? []), life]);
    expect(times.size).toBe(count);
    // An item that runs again was in flight when its process was killed: once in a life, and few in all.
    const again = [...times.values()].filter(({ length }) => length > 1);
    for (const lives of again) expect(new Set(lives).size).toBe(lives.length);
    for (let life = 2; life <= last; life++) {
      const repeated = effects.filter(([own, index]) => own === life && times.get(index)!.some((one) => one < life));
      expect(repeated.length, `life ${life}`).toBeLessThanOrEqual(concurrency);
    }
    expect(effects.length - count).toBeLessThanOrEqual((last - 1) * concurrency);
    for (const { wallMs, cpuMs, longestMs, heapMb } of figures)
      console.log(
        `replay and start: ${cpuMs.toFixed()} ms of processor time (${wallMs.toFixed()} ms), at most ${longestMs.toFixed()} ms at a stretch, heap ${heapMb.toFixed(1)} MB`,
      );
    expect(figures).toHaveLength(last - 1);
    // The least of the longest replays: a machine that is stopped for a moment counts that as processor time. About 50 ms
    // where nothing else runs; twice as much with cold caches. One stretch for 10,000 items takes several hundred.
    const longest = figures.slice(-replays);
    expect(Math.min(...longest.map(({ longestMs }) => longestMs))).toBeLessThanOrEqual(100);
    expect(Math.min(...longest.map(({ cpuMs }) => cpuMs))).toBeLessThanOrEqual(500);
  },
  bySize(240_000, 1_200_000),
);
