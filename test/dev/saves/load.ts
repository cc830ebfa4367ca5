import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "./client.ts";
import type { History } from "./oracle.ts";
import { views } from "./views.ts";

export interface Load {
  readonly count: () => number;
  /** What went wrong so far; the first ones. */
  readonly failures: string[];
  /** Ends it. Resolves when every answer is there. */
  stop(): Promise<void>;
}

const clients = 2;
const eachMs = 200;

/** Ten requests a second, over two connections, to one route after the other; each answer must be of a version of its time. */
export function createLoad(base: string, history: History): Load {
  const failures: string[] = [];
  let count = 0;
  const ending = new AbortController();

  async function work(offset: number): Promise<void> {
    const client = createClient(base, { keepAlive: true });
    const asked = [...Object.entries(views), ...Object.entries(others)];
    for (let turn = offset; !ending.signal.aborted; turn++) {
      const [name, ask] = asked[turn % asked.length]!;
      const from = performance.now();
      try {
        const seen = await ask(client);
        const to = performance.now();
        for (const stamps of seen) {
          if (!history.allows(stamps, from, to))
            failures.push(`${name} is of no version of its time: ${JSON.stringify(stamps)}`);
        }
      } catch (error) {
        failures.push(String(error));
      }
      count++;
      if (failures.length > 20) break;
      await sleep(Math.max(0, from + eachMs - performance.now()));
    }
    const { opened, lost } = client.connections;
    if (opened !== 1) failures.push(`${opened} connections were needed in place of one: ${lost.join(", ")}`);
    client.close();
  }
  const working = Promise.all(Array.from({ length: clients }, (_, index) => work(index * 4)));
  return {
    count: () => count,
    failures,
    async stop() {
      ending.abort();
      await working;
    },
  };
}

/** What looks the same in every version. */
const others: typeof views = {
  "the document": async ({ ask }) => (await ask("GET", "/doc"), []),
  "the log": async ({ ask }) => (await ask("GET", "/api/logs?limit=5"), []),
};
