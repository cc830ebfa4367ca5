import { expect, it } from "vitest";
import { bySize } from "../harness/size.ts";
import { untilNone } from "../harness/waiting.ts";
import { serve } from "./serve.ts";
import { leaveUnread, toGet } from "./unread.ts";

const readers = bySize(60, 400);
/** The most resident memory: that of an idle server and of its young generation, and a response for each reader. */
const maxMb = 350 + 12 * readers;
const timeout = bySize(300_000, 1_200_000);

// The kernel takes the first 4 MB of a response that is not read.
it(
  `cuts ${readers} clients that do not read a response, and frees what they have cost`,
  async () => {
    const server = await serve({ bounds: { responseStallMs: 2_000 }, more: 1_350 });
    const paths = ["/doc", "/workflows"];
    const sizes = await Promise.all(
      paths.map(async (path) => (await (await server.get(path)).arrayBuffer()).byteLength),
    );
    expect(Math.min(...sizes)).toBeGreaterThan(4_600_000);
    const before = await server.memory();
    const unread = await Promise.all(
      Array.from({ length: readers }, (_, n) => leaveUnread(server.port, toGet(paths[n % 2]!))),
    );
    await untilNone(() => server.open(unread), "connections that are not read");

    const after = await server.memory();
    const kept = Math.round((total(after) - total(before)) / 1_048_576);
    console.log(`${readers} unread responses of ${sizes}: RSS ${JSON.stringify(server.rss())} MB, ${kept} MB kept`);
    expect(server.rss().peak, "MB").toBeLessThan(maxMb);
    expect(kept, "MB that are kept after the cut").toBeLessThan(20);
  },
  timeout,
);

const total = ({ heapUsed, external }: NodeJS.MemoryUsage): number => heapUsed + external;
