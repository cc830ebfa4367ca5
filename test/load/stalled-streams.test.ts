import { expect, it } from "vitest";
import { bySize } from "../harness/size.ts";
import { until, untilNone } from "../harness/waiting.ts";
import { serve } from "./serve.ts";
import { leaveUnread, toGet } from "./unread.ts";

const readers = bySize(60, 400);
/** The most resident memory: that of an idle server and of its young generation, and `sseBufferBytes` for each reader. */
const maxMb = 350 + 2 * readers;
const timeout = bySize(300_000, 1_200_000);

it(
  `cuts ${readers} readers of events that stop reading, and keeps at most a buffer for each until then`,
  async () => {
    const server = await serve({ bounds: { sseStallMs: 2_000 }, gated: true });
    const started = await server.post(
      "/workflows/noisy/execute",
      { input: {}, options: { executionId: "n" } },
      { prefer: "respond-async" },
    );
    expect(started.status).toBe(202);
    const before = await server.memory();
    const stream = toGet("/workflows/noisy/executions/n/stream");
    const unread = await Promise.all(Array.from({ length: readers }, () => leaveUnread(server.port, stream)));
    await untilNone(() => server.open(unread), "streams that are not read");
    const after = await server.memory();
    const kept = Math.round((after.heapUsed + after.external - before.heapUsed - before.external) / 1_048_576);
    console.log(`${readers} unread streams: RSS ${JSON.stringify(server.rss())} MB, ${kept} MB kept`);
    expect(server.rss().peak, "MB").toBeLessThan(maxMb);
    expect(kept, "MB that are kept after the cut").toBeLessThan(20);
    await server.post("/gate");
    const state = "/workflows/noisy/executions/n/state";
    await until(async () => (await (await server.get(state)).text()).includes('"completed"'), "the execution");
  },
  timeout,
);
