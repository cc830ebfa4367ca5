// A server on a file with a loop over many items, as a process that is killed and started again. Its argument is a JSON text:
// `HostOptions`.
import { openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import * as v from "valibot";
import { toProject } from "../../../src/config/load.ts";
import { andThen, defineWorkflow, embedded } from "../../../src/index.ts";
import { openServer } from "../../../src/server/create.ts";
import { createTestLogger } from "../../harness/server.ts";

export interface HostOptions {
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

const { folder, life, concurrency, end } = JSON.parse(process.argv[2]!) as HostOptions;
const log = openSync(join(folder, "log"), "a");
/** Synchronous: every effect that has happened is in the log. */
const write = (line: string): void => void writeSync(log, `${line}\n`);

const toMs = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1_000;
let hasBegun = false;
/** Measures every turn of the event loop until the first item has begun, the turn in which it does included. */
async function measure(): Promise<void> {
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
  const figures: Figures = { wallMs, cpuMs, longestMs, heapMb: process.memoryUsage().heapUsed / 2 ** 20 };
  console.log(JSON.stringify({ figures }));
}

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

const server = openServer(toProject({ workflows: [many], backend: embedded({ path: join(folder, "data.db") }) }), {
  mode: "start",
  logger: createTestLogger([]),
});
await nextTurn();
void measure();
const { url } = await server.listen({ port: 0 });
console.log(JSON.stringify({ url }));
process.stdin.on("end", () => process.exit()).resume(); // at the end the test is gone
