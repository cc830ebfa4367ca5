import { join } from "node:path";
import { andThen, defineWorkflow, embedded } from "agentserve";
import { expect, it, onTestFinished, vi } from "vitest";
import { JournalTable } from "../../../src/backends/embedded/store/tables/journal-table.ts";
import { maxKeptSteps } from "../../../src/workflows/history/kept-steps.ts";
import { createFolder } from "../../harness/folders.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";

/** Counts the reads of a journal. */
function countReads() {
  const reads = vi.spyOn(JournalTable.prototype, "history");
  onTestFinished(() => reads.mockRestore());
  return reads;
}
/** Reads the pages of steps, from a cursor on. */
async function readPages(
  server: TestServer,
  path: string,
  cursor: string | null = "",
): Promise<{ items: any[]; nextCursor: string | null }[]> {
  const pages = [];
  while (cursor !== null) {
    const { data } = (await server.get(`${path}${cursor && `&cursor=${cursor}`}`)).body;
    pages.push(data);
    cursor = data.nextCursor as string | null;
  }
  return pages;
}

it("reads the journal of an ended execution once for all pages of its steps, and again after a retry", async () => {
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
  const server = await startTestServer("start", { config });
  const reads = countReads();
  const path = "/workflows/loop/executions/e";
  const readAll = async (query: string): Promise<any[]> =>
    (await readPages(server, `${path}/steps?limit=100&${query}`)).flatMap(({ items }) => items);
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

it.each(["completed", "suspended"])(
  "reads the journal of a %s execution once for the pages from a cursor on",
  async (end) => {
    const folder = createFolder("kept-pages");
    const loop = defineWorkflow({ id: "loop" })
      .andForEach({
        id: "each",
        concurrency: 10,
        items: () => Array.from({ length: 300 }, (_, index) => index),
        step: andThen({ id: "one", execute: ({ data }) => data }),
      })
      .andThen({
        id: "end",
        execute: ({ resumeData, suspend }) => (end === "suspended" && !resumeData ? suspend("Go?") : "gone"),
      })
      .andForEach({ id: "more", items: () => [1, 2], step: andThen({ id: "other", execute: ({ data }) => data }) });
    async function live(): Promise<TestServer> {
      const config = { workflows: [loop], backend: embedded({ path: join(folder, "data.db") }) };
      return startTestServer("start", { config });
    }
    const path = "/workflows/loop/executions/e";
    const under = `${path}/steps?limit=100&under=each`;
    const first = await live();
    const begun = await first.post("/workflows/loop/execute", { input: {}, options: { executionId: "e" } });
    expect(begun.body.data.status).toBe(end);
    const pages = await readPages(first, under);
    expect(pages.map(({ items }) => items.length)).toEqual([100, 100, 100, 100, 100, 100]);
    await first.close();

    const second = await live();
    const reads = countReads();
    const cursor = pages[1]!.nextCursor;
    expect(await readPages(second, under, cursor)).toEqual(pages.slice(2));
    expect(reads).toHaveBeenCalledTimes(1);
    // A page before that is read again, and those after it are not.
    expect(await readPages(second, under)).toEqual(pages);
    expect(reads).toHaveBeenCalledTimes(2);
    if (end === "completed") return;
    expect((await second.get(`${path}/steps?under=more`)).body.data.items).toEqual([]);
    await second.post(`${path}/resume`, { resumeData: true });
    expect((await second.get(`${path}/steps?under=more`)).body.data.items).toHaveLength(4);
  },
);

it("pages through more steps than are kept", { timeout: 180_000 }, async () => {
  const size = maxKeptSteps / 2 + 150; // each item is two steps
  const loop = defineWorkflow({ id: "loop" }).andForEach({
    id: "each",
    concurrency: 1_000,
    items: () => Array.from({ length: size }, (_, index) => index),
    step: andThen({ id: "one", execute: () => null }),
  });
  const server = await startTestServer("in process", {
    config: { workflows: [loop], backend: embedded({ path: ":memory:" }) },
  });
  await server.post("/workflows/loop/execute", { input: {}, options: { executionId: "e" } });
  const reads = countReads();
  const pages = await readPages(server, "/workflows/loop/executions/e/steps?limit=200&under=each");
  const paths = new Set(pages.flatMap(({ items }) => items.map(({ path }) => path)));
  expect(paths.size).toBe(2 * size);
  expect(reads).toHaveBeenCalledTimes(2);
});
