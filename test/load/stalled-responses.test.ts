import { expect, it } from "vitest";
import { bySize } from "../harness/size.ts";
import { until, within } from "../harness/waiting.ts";
import { serve } from "./serve.ts";
import { leaveUnread, readSlowly, toGet } from "./unread.ts";

const readers = bySize(60, 400);
/** The most resident memory: that of an idle server and of its young generation, and a response for each reader. */
const mostMb = 350 + 8 * readers;
const timeout = bySize(120_000, 600_000);

// The kernel takes the first 4 MB of a response that is not read.
it(
  `cuts ${readers} clients that do not read a response, and none that reads slowly`,
  async () => {
    const server = await serve({ limits: { responseStallMs: 4_000 }, more: 1_250 });
    const paths = ["/doc", "/workflows"];
    const sizes = await Promise.all(
      paths.map(async (path) => (await (await server.get(path)).arrayBuffer()).byteLength),
    );
    expect(Math.min(...sizes)).toBeGreaterThan(4_600_000);
    const before = await server.memory();
    const slow = paths.map((path) => readSlowly(server.port, toGet(path, "Connection: close")));
    const unread = await Promise.all(
      Array.from({ length: readers }, (_, n) => leaveUnread(server.port, toGet(paths[n % 2]!))),
    );
    await until(
      () => server.open(unread) === 0,
      () => `the end of ${server.open(unread)} connections that are not read`,
    );
    const read = await within(Promise.all(slow), "the slow readers");
    expect(read[0]).toBeGreaterThan(sizes[0]!);
    expect(read[1]).toBeGreaterThan(sizes[1]!);

    const after = await server.memory();
    const kept = Math.round((total(after) - total(before)) / 1_048_576);
    console.log(`${readers} unread responses of ${sizes}: RSS ${JSON.stringify(server.rss())} MB, ${kept} MB kept`);
    expect(server.rss().peak, "MB").toBeLessThan(mostMb);
    expect(kept, "MB that are kept after the cut").toBeLessThan(20);
  },
  timeout,
);

const total = ({ heapUsed, external }: NodeJS.MemoryUsage): number => heapUsed + external;
