import { join } from "node:path";
import { expect, it } from "vitest";
import { bin, run } from "../../harness/cli.ts";
import { openSocket } from "../../harness/server.ts";
import { bySize } from "../../harness/size.ts";
import { createClient, type Client } from "./client.ts";
import { createJourneys } from "./journeys.ts";
import { createLoad } from "./load.ts";
import { History, toExpected, toStamps } from "./oracle.ts";
import { toSave, type Save } from "./plan.ts";
import { createStampedProject, toStamp } from "./project.ts";
import { readReports } from "./reports.ts";
import { createSockets } from "./sockets.ts";
import { createTickers } from "./tickers.ts";
import { views } from "./views.ts";
import { readWitness } from "./witness.ts";

const size = bySize(30, 500); // each sort of save at least once
// What is logged is kept, up to a bound of its own; a version weighs about 2.5 MB, one file of it a tenth.
const maxGrowth = bySize(8, 16) * 1_048_576;

it(
  `serves each of ${size} saves under load: nothing fails, drops, is stale, changes its code, or is kept`,
  async () => {
    const folder = createStampedProject();
    const file = join(folder, "witness.log");
    const env = { ...process.env, WITNESS: file, NO_COLOR: "1" };
    const child = run(process.execPath, ["--expose-gc", bin, "dev", "--port", "0"], { cwd: folder, env });
    const reports = readReports(child);
    const [base] = await child.waitFor(/http:\/\/[^\s/]+/);
    const history = new History();
    const client = createClient(base, { keepAlive: false });
    const tickers = await createTickers(client, ["ticker-a", "ticker-b"], 10);
    const sockets = await createSockets(base);
    const journeys = await createJourneys(client, history, 10);
    const load = createLoad(base, history);
    const began = performance.now();
    const took: number[] = [];
    const heap: number[] = [];

    for (let number = 1; number <= size; number++) {
      const save = toSave(number - 1);
      const title = `save ${number}, ${save.title}`;
      const before = history.current;
      const held = client.ask("GET", `/held/${number}`);
      held.catch(() => {}); // what kept it from its end is told first
      await client.ask("GET", `/arrival/${number}`);

      const reported = save.isBroken ? reports.failed(save.names) : reports.served(save.names);
      const writtenAt = performance.now();
      if (!save.isBroken) history.written(save.stamps, number);
      save.write(folder, toStamp(number));
      const reportedAt = await reported;
      if (!save.isBroken) {
        history.reported(reportedAt);
        took.push(reportedAt - writtenAt);
      }

      await expectCurrent(client, base, history, save, title);
      await client.ask("POST", `/gates/${number}`);
      const late = toStamps(await held);
      expect(late, `${title}: a request ends on the version that it began with`).toEqual(toExpected(late, before));
      await tickers.tick();
      await sockets.talk();
      await journeys.goOn(number);
      expect(load.failures, title).toEqual([]);
      expect(readWitness(file).mistakes(), title).toEqual([]);
      if (number !== size / 5 && number !== size) continue;
      expect(await journeys.running()).toBe(10);
      heap.push((await client.ask("GET", "/heap")).bytes);
    }

    const seconds = (performance.now() - began) / 1_000;
    await load.stop();
    expect(load.failures).toEqual([]);
    expect(tickers.streams.filter((stream) => stream.isOpen())).toHaveLength(20);
    await tickers.stop();
    await journeys.finish();
    await sockets.close();
    expect(client.connections.lost).toEqual([]);
    client.close();
    await expectDisposed(file, 1);
    child.process.kill("SIGTERM");
    expect(await child.ended).toMatchObject({ code: 0 });
    await expectDisposed(file, 0);
    expect(readWitness(file).mistakes()).toEqual([]);

    const [first = 0, last = 0] = heap;
    console.log(
      `saves: ${size} in ${seconds.toFixed(1)} s, save-to-served ${toSpread(took)}, ${reports.count.served} reports;`,
      `${load.count()} requests beside, ${tickers.streams.length} + 5 SSE, ${sockets.size} WebSockets,`,
      `${journeys.count.ended} executions over up to ${journeys.count.maxSaves} saves;`,
      `heap ${toMegabytes(first)} → ${toMegabytes(last)} MB`,
    );
    expect(last - first).toBeLessThan(maxGrowth);
  },
  bySize(600_000, 1_800_000),
);

/** Every way to ask, all at once, shows what was saved last. */
async function expectCurrent(client: Client, base: string, history: History, save: Save, title: string): Promise<void> {
  const asked = Object.entries(views).map(async ([name, view]) => {
    for (const stamps of await view(client)) {
      expect(stamps, `${title}: ${name}`).toEqual(toExpected(stamps, history.current));
    }
  });
  async function connect(): Promise<void> {
    const socket = await openSocket(`${base.replace("http", "ws")}/own`);
    const stamps = toStamps(await socket.next());
    expect(stamps, `${title}: a new socket`).toEqual(toExpected(stamps, history.current));
    socket.close();
    await socket.closed;
  }
  await Promise.all([...asked, connect()]);
  if (save.extra) expect(await client.status("/workflows/extra"), title).toBe(save.extra);
}

/** All but so many versions of the config are disposed of, soon. */
async function expectDisposed(file: string, but: number): Promise<void> {
  await expect.poll(() => readWitness(file).left()).toHaveLength(but);
}

function toSpread(took: readonly number[]): string {
  const sorted = took.toSorted((a, b) => a - b);
  const at = (share: number): number => Math.round(sorted[Math.floor((sorted.length - 1) * share)]!);
  return `median ${at(0.5)} ms, p95 ${at(0.95)} ms`;
}

const toMegabytes = (bytes: number): string => (bytes / 1_048_576).toFixed(1);
