import { expect, it } from "vitest";
import { bySize } from "../harness/size.ts";
import { actions } from "./actions.ts";
import { serve } from "./serve.ts";

const requests = bySize(2_000, 30_000);
const samples = 20;
const workers = 8;
/** The most that the heap may grow in the second half. In a short run, code is still being compiled. */
const maxMb = bySize(2, 1);
const timeout = bySize(300_000, 1_800_000);

it(
  `keeps nothing of ${requests} requests: in their second half, the heap grows by less than ${maxMb} MB`,
  async () => {
    // Full after the first samples: records that are kept by intention do not count as growth.
    const server = await serve({ bounds: { logRecords: 100 } });
    const statuses: Record<string, number> = {};
    const curve: number[] = [];
    let sent = 0;
    let turn = 0;
    async function work(end: number): Promise<void> {
      while (sent < end) {
        const n = turn++;
        const answers = await actions[n % actions.length]!(server, n);
        sent += answers.length;
        for (const status of answers) statuses[status] = (statuses[status] ?? 0) + 1;
      }
    }
    for (let sample = 1; sample <= samples; sample++) {
      await Promise.all(Array.from({ length: workers }, () => work((requests * sample) / samples)));
      curve.push((await server.memory()).heapUsed / 1_048_576);
    }
    const growth = curve.at(-1)! - curve[samples / 2 - 1]!;
    console.log(`heap in MB after each ${100 / samples} %: ${curve.map((mb) => mb.toFixed(2)).join(" ")}`);
    console.log(`growth ${growth.toFixed(2)} MB, RSS ${JSON.stringify(server.rss())} MB, ${JSON.stringify(statuses)}`);
    expect(Object.keys(statuses)).toEqual(["0", "101", "200", "202", "400", "404", "500", "502"]);
    expect(growth, "MB of growth").toBeLessThan(maxMb);
  },
  timeout,
);
