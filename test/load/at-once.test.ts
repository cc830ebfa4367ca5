import { expect, it } from "vitest";
import { parseEvents } from "../harness/client.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { serve } from "./serve.ts";

const count = bySize(100, 500);
const readers = bySize(200, 2_000);
const timeout = bySize(300_000, 1_200_000);

it(
  `completes ${count} executions of five steps that are started at once, and loses none`,
  async () => {
    const server = await serve();
    const start = async (n: number): Promise<string> => {
      const body = { input: { n }, options: { executionId: `e${n}` } };
      if (n % 3 === 0) return streamed(await server.post("/workflows/counting/stream", body));
      const response = await server.post("/workflows/counting/execute", body, n % 3 === 1 ? {} : async);
      const { data } = (await response.json()) as { data: { status: string; result?: unknown } };
      expect([response.status, data.status]).toEqual(n % 3 === 1 ? [200, "completed"] : [202, "running"]);
      if (n % 3 === 1) expect(data.result).toEqual({ n, steps: [1, 2, 3, 4, 5] });
      return data.status;
    };
    await Promise.all(Array.from({ length: count }, (_, n) => start(n)));

    let found: Listed[] = [];
    await until(
      async () => {
        found = await list(server.get);
        return found.every(({ status }) => status === "completed");
      },
      () => `the executions, of which ${found.filter(({ status }) => status !== "completed").length} are not complete`,
    );
    const expected = Array.from({ length: count }, (_, n) => `e${n}`).toSorted();
    expect(found.map(({ executionId }) => executionId).toSorted()).toEqual(expected);
    const results = await Promise.all(
      found.map(async ({ executionId }) => {
        const response = await server.get(`/workflows/counting/executions/${executionId}/state`);
        return ((await response.json()) as { data: { result: unknown } }).data.result;
      }),
    );
    expect(results).toEqual(found.map(({ executionId: id }) => ({ n: Number(id.slice(1)), steps: [1, 2, 3, 4, 5] })));
    console.log(`${count} executions at once: RSS ${JSON.stringify(server.rss())} MB`);
  },
  timeout,
);

it(
  `gives each of ${readers} readers of running executions every event, and the result as the last one`,
  async () => {
    const server = await serve({ gated: true, bounds: { sseStreamsPerCaller: readers } });
    const ids = Array.from({ length: 20 }, (_, n) => `g${n}`);
    for (const executionId of ids) {
      const started = await server.post("/workflows/gated/execute", { input: {}, options: { executionId } }, async);
      expect(started.status).toBe(202);
    }
    const idle = await server.memory();
    const open = await Promise.all(
      Array.from({ length: readers }, async (_, n) => {
        const response = await server.get(`/workflows/gated/executions/${ids[n % ids.length]}/stream`);
        expect(response.status).toBe(200); // sent with the first event
        return response;
      }),
    );
    const busy = await server.memory();
    await server.post("/gate");
    const texts = await Promise.all(open.map((response) => response.text()));
    for (const [n, text] of texts.entries()) {
      const events = parseEvents(text);
      expect(events.map(({ type }) => type)).toEqual([
        "workflow-start",
        "step-start",
        "step-complete",
        "step-start",
        "step-complete",
        "workflow-complete",
        "workflow-result",
      ]);
      expect(events.at(-1)).toMatchObject({ executionId: ids[n % ids.length], status: "completed", result: "done" });
    }
    const each = Math.round((busy.heapUsed - idle.heapUsed) / readers / 1_024);
    console.log(`${readers} readers: ${each} KB of heap each, RSS ${JSON.stringify(server.rss())} MB`);
    expect(each, "KB of heap for each reader").toBeLessThan(100);
  },
  timeout,
);

const async = { prefer: "respond-async" };

async function streamed(response: Response): Promise<string> {
  const last = parseEvents(await response.text()).at(-1);
  expect(last).toMatchObject({ type: "workflow-result", status: "completed" });
  return last.status;
}

interface Listed {
  executionId: string;
  status: string;
}

/** Reads every page of the list. */
async function list(get: (path: string) => Promise<Response>): Promise<Listed[]> {
  const items: Listed[] = [];
  for (let cursor: string | null = ""; cursor !== null;) {
    const page = await get(`/workflows/counting/executions?limit=200${cursor && `&cursor=${cursor}`}`);
    const { data } = (await page.json()) as { data: { items: Listed[]; nextCursor: string | null } };
    items.push(...data.items);
    cursor = data.nextCursor;
  }
  return items;
}
