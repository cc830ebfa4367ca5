import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { newFile } from "../../harness/folders.ts";
import { bySize } from "../../harness/size.ts";
import { startHost } from "../../harness/start-host.ts";
import { eventually, timed } from "../../harness/waiting.ts";
import { query } from "../../workflows/waits/serve.ts";
import type { Begin } from "./sleepers-app.ts";

const day = 86_400_000;
const batch = 5_000;
const timeout = bySize(120_000, 900_000);

it(
  "keeps sleeping executions at next to no memory, starts and ends at once with them, and wakes each once",
  { timeout },
  async () => {
    const file = newFile();
    const count = bySize(1_000, 100_000);
    const first = await open(file);
    const idle = await first.memory();
    await first.begin({ workflow: "naps", prefix: "s", count, from: Date.now() + day, every: 1 });
    await eventually(() => expect(suspended(file)).toBe(count));
    const { heap } = await first.memory();
    const closing = performance.now();
    await first.end("SIGTERM");
    const closed = performance.now() - closing;

    const empty = await timed(() => open(newFile()));
    const second = await timed(() => open(file));
    const woken = bySize(200, 5_000);
    const from = Date.now() + bySize(2_000, 15_000); // when all of them sleep
    await second.value.begin({ workflow: "naps", prefix: "w", count: woken, from, every: 2 });
    await sleep(from + 2 * woken - Date.now()); // nobody else reads the file
    await eventually(() => expect(completed(file)).toBe(woken));
    const late = await second.value.late();
    const p99 = late.toSorted((one, other) => one - other)[Math.floor(woken * 0.99)]!;
    console.log(
      `${count} sleepers: ${((heap - idle.heap) / 2 ** 20).toFixed(1)} MB of heap, closed in ${Math.round(closed)} ms,`,
      `listening after ${Math.round(second.ms)} ms, with an empty file after ${Math.round(empty.ms)} ms;`,
      `lateness at 500 wakes per second: p99 ${p99} ms`,
    );
    expect(heap - idle.heap).toBeLessThan(20 * 2 ** 20);
    expect(second.ms).toBeLessThan(2 * empty.ms + 1_000);
    expect(late).toHaveLength(woken);
    expect(Math.min(...late), "none is early").toBeGreaterThanOrEqual(0);
    expect(suspended(file)).toBe(count);
  },
);

it("continues each sleep and each wait once while its process is killed at random", async () => {
  const file = newFile();
  const count = bySize(150, 10_000);
  let host = await open(file);
  const from = Date.now();
  await host.begin({ workflow: "naps", prefix: "s", count, from, every: 10_000 / count });
  await host.begin({ workflow: "waits", prefix: "w", count, from: 0, every: 0 });
  const kills = bySize(3, 20);
  for (let n = 0; n < kills; n++) {
    const id = `go${n}`;
    await fetch(`${host.url}/events`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ name: "go", data: n, id }),
    }).then(({ status }) => expect(status).toBe(202));
    await sleep(Math.random() * 200);
    await host.end();
    host = await open(file);
  }
  await eventually(() => expect(completed(file)).toBe(2 * count));
  await host.end("SIGTERM");
  const wakes = query<{ wakes: number; taken: number }>(
    file,
    `select sum(kind = 'wake') as wakes, sum(kind = 'wake' and json_extract(body, '$.event') = 'go0 anonymous') as taken
     from journal group by number`,
  );
  expect(wakes.filter((one) => one.wakes !== 1)).toEqual([]);
  expect(wakes.filter(({ taken }) => taken === 1)).toHaveLength(count); // the oldest
  expect(query(file, "select number from timers union all select number from event_waits")).toEqual([]);
});

async function open(file: string) {
  const module = join(import.meta.dirname, "sleepers-app.ts");
  const host = await startHost(module, { file }, { execArgv: ["--expose-gc"] });
  /** Begins the executions in batches: a busy machine takes minutes for all of them. */
  async function begin({ prefix, count, from, every, ...rest }: Begin): Promise<void> {
    for (let n = 0; n < count; n += batch) {
      const size = Math.min(batch, count - n);
      await host.order("begin", { ...rest, prefix: `${prefix}${n}-`, count: size, from: from + n * every, every });
    }
  }
  const late = (): Promise<number[]> => host.order("late");
  return { url: host.url, begin, late, memory: () => host.memory(), end: host.end.bind(host) };
}

const countOf = (file: string, status: string): number =>
  query<{ count: number }>(file, `select count(*) as count from executions where status = '${status}'`)[0]!.count;
const suspended = (file: string): number => countOf(file, "suspended");
const completed = (file: string): number => countOf(file, "completed");
