// A loop over many items, on a file. It reports the figures of each start.
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import * as v from "valibot";
import { andThen, defineWorkflow, embedded } from "../../../src/index.ts";
import { createLog, type Hosted } from "../../harness/hosted.ts";

interface Options {
  readonly folder: string;
  readonly life: number;
  readonly concurrency: number;
  /** The items from this one on do not end in this life. */
  readonly end: number;
}
/** The start of a life, until its first item begins: behind the replay of everything that was recorded. */
export interface Figures {
  readonly wallMs: number;
  /** The processor time of the thread: unlike the time on the clock, it does not grow when other processes use the machine. */
  readonly cpuMs: number;
  /** The most processor time in which nothing else could run. */
  readonly longestMs: number;
  readonly heapMb: number;
}

const toMs = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1_000;
let hasBegun = false;
/** Measures every turn of the event loop until the first item has begun, the turn in which it does included. */
async function measure(): Promise<Figures> {
  const at = performance.now();
  const start = process.threadCpuUsage();
  let longestMs = 0;
  for (let before = start; ; before = process.threadCpuUsage()) {
    await nextTurn();
    longestMs = Math.max(longestMs, toMs(process.threadCpuUsage(before)));
    if (hasBegun) break;
  }
  const [wallMs, cpuMs] = [performance.now() - at, toMs(process.threadCpuUsage(start))];
  globalThis.gc?.();
  return { wallMs, cpuMs, longestMs, heapMb: process.memoryUsage().heapUsed / 2 ** 20 };
}

export default async function create(options: Options, report: (figures: Figures) => void): Promise<Hosted> {
  const { folder, life, concurrency, end } = options;
  const write = createLog(folder);
  const many = defineWorkflow({ id: "many", input: v.object({ count: v.number() }) })
    .andForEach({
      id: "each",
      items: ({ data }) => Array.from({ length: data.count }, (_, index) => ({ index, name: `page ${index}` })),
      concurrency,
      step: andThen({
        id: "work",
        execute: async ({ data }: { data: { index: number; name: string } }) => {
          hasBegun = true;
          write(`${life} ${data.index}`);
          await (data.index < end ? nextTurn() : new Promise(() => {}));
          return { index: data.index, text: `read ${data.name}` };
        },
      }),
    })
    .andThen({
      id: "end",
      execute: ({ data }) => ({
        count: data.length,
        isInOrder: data.every(({ index, text }, place) => index === place && text === `read page ${place}`),
      }),
    });

  await nextTurn();
  void measure().then(report);
  return { config: { workflows: [many], backend: embedded({ path: join(folder, "data.db") }) } };
}
