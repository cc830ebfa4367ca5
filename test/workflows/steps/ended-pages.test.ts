import { andThen, defineWorkflow, embedded } from "agentserve";
import { expect, it, onTestFinished, vi } from "vitest";
import { Store } from "../../../src/backends/embedded/store/store.ts";
import { startServer } from "../../harness/server.ts";

it("the journal of an execution that has ended is read once for all pages of its steps, and again after a retry", async () => {
  let isBroken = true;
  const loop = defineWorkflow({ id: "loop" }).andForEach({
    id: "each",
    concurrency: 10,
    items: () => Array.from({ length: 300 }, (_, index) => index),
    step: andThen({
      id: "one",
      execute: ({ data }) => {
        if (isBroken && data === 295) throw new Error("not yet");
        return data;
      },
    }),
  });
  const config = { workflows: [loop], backend: embedded({ path: ":memory:" }) };
  const server = await startServer("start", { config });
  onTestFinished(() => server.close());
  const reads = vi.spyOn(Store.prototype, "history");
  onTestFinished(() => reads.mockRestore());
  const path = "/workflows/loop/executions/e";
  async function readAll(query: string): Promise<any[]> {
    const items: any[] = [];
    for (let cursor = ""; ;) {
      const { body } = await server.get(`${path}/steps?limit=100&${query}${cursor}`);
      items.push(...body.data.items);
      if (body.data.nextCursor === null) return items;
      cursor = `&cursor=${body.data.nextCursor}`;
    }
  }
  const begun = await server.post("/workflows/loop/execute", { input: {}, options: { executionId: "e" } });
  expect(begun.status).toBe(500);
  reads.mockClear();
  const failed = await readAll("under=each");
  expect(reads).toHaveBeenCalledTimes(1);
  expect(failed.length).toBeGreaterThan(500);
  expect(failed.filter(({ status }) => status === "error").map((one) => one.path)).toEqual([
    "each/295",
    "each/295/one",
  ]);
  expect(await readAll("under=each")).toEqual(failed);
  expect((await readAll("status=error")).map((one) => one.path)).toEqual(["each", "each/295", "each/295/one"]);
  isBroken = false;
  expect((await server.post(`${path}/retry`, {})).status).toBe(200);
  reads.mockClear();
  const fixed = await readAll("under=each");
  expect(reads).toHaveBeenCalledTimes(1);
  expect(fixed).toHaveLength(600);
  expect(fixed.every(({ status }) => status === "success")).toBe(true);
  expect(await readAll("status=error")).toEqual([]);
});
