import { andThen, defineWorkflow } from "agentserve";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { openConsole } from "../console/world.ts";
import { bySize } from "../harness/size.ts";
import { openPage } from "./console-page.ts";

const count = bySize(2_000, 10_000);
const loop = defineWorkflow({ id: "loop", input: v.object({ count: v.number() }) }).andForEach({
  id: "each",
  concurrency: 100,
  items: ({ data }) => Array.from({ length: data.count }, (_, n) => ({ n, text: `item ${n}` })),
  step: andThen({ id: "check", execute: ({ data }) => ({ item: data, isChecked: true }) }),
});

describe("a run with many items in the console", () => {
  it(`scrolls through ${count} items with few rows in the document`, { timeout: 600_000 }, async () => {
    const server = await openConsole({ workflows: [loop] });
    const json = { input: { count }, options: { executionId: "run-1" } };
    expect((await server.ask("/workflows/loop/execute", { json })).status).toBe(200);
    const { page, faults } = await openPage(`${server.url}/console#/runs/loop/run-1?step=each`);
    await page.getByRole("button", { name: `${count} items` }).click();
    await page.getByRole("treeitem", { name: /^0 item/ }).waitFor();
    const reading = await page.evaluate(readAll, count);
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
    const readTaskMs = async (): Promise<number> => {
      const { metrics } = await devtools.send("Performance.getMetrics");
      return metrics.find(({ name }) => name === "TaskDuration")!.value * 1_000;
    };
    const before = await readTaskMs();
    const scrolled: Scrolled[] = [];
    for (let round = 0; round < 3; round++) scrolled.push(await page.evaluate(scroll));
    const taskMs = (await readTaskMs()) - before;
    const frames = scrolled.reduce((sum, one) => sum + one.frames, 0);
    await devtools.send("HeapProfiler.enable");
    await devtools.send("HeapProfiler.collectGarbage");
    const { usedSize } = await devtools.send("Runtime.getHeapUsage");
    const heap = usedSize / 1024 / 1024;
    console.log(
      `${count} items: longest task while reading ${Math.round(reading.longest)} ms, ` +
        `in three scrolls ${scrolled.map(({ longest }) => Math.round(longest)).join(", ")} ms (0: none over 50 ms), ` +
        `${(taskMs / frames).toFixed(1)} ms of CPU time in each of ${frames} frames, heap ${heap.toFixed(1)} MB`,
    );
    for (const { rows, nodes } of [reading, ...scrolled]) {
      expect(rows).toBeLessThan(60);
      expect(nodes).toBeLessThan(1_000);
    }
    expect(heap).toBeLessThan(60);
    await page.getByRole("treeitem", { name: new RegExp(`^${count - 1} item`) }).click();
    await page.getByRole("heading", { name: `each/${count - 1}` }).waitFor();
    await page.getByRole("group", { name: "Output" }).getByText("true").waitFor();
    expect(faults).toEqual([]);
  });
});

interface Scrolled {
  /** The longest task in milliseconds, if it is over 50. */
  readonly longest: number;
  readonly frames: number;
  /** The most that were in the document. */
  readonly rows: number;
  readonly nodes: number;
}

// The functions below run in the page.

/** Scrolls to the end again and again, until all items were read. */
async function readAll(wanted: number): Promise<Scrolled> {
  const tree = document.querySelector('[role="tree"]')!;
  const tasks: number[] = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration)));
  observer.observe({ entryTypes: ["longtask"] });
  for (let frames = 1, rows = 0, nodes = 0; ; frames++) {
    tree.scrollTop = tree.scrollHeight;
    await new Promise((resolve) => setTimeout(resolve, 20));
    rows = Math.max(rows, tree.querySelectorAll('[role="treeitem"]').length);
    nodes = Math.max(nodes, document.querySelectorAll("*").length);
    const last = tree.querySelector('[role="treeitem"]:last-of-type');
    const isRead = last?.getAttribute("aria-setsize") === String(wanted);
    if (!isRead || !tree.textContent.includes(`${wanted - 1} item`)) continue;
    await new Promise((resolve) => setTimeout(resolve, 100)); // tasks are reported late
    observer.disconnect();
    return { longest: Math.max(0, ...tasks), frames, rows, nodes };
  }
}

/** Scrolls from the beginning to the end, a part in each frame. */
async function scroll(): Promise<Scrolled> {
  const tree = document.querySelector('[role="tree"]')!;
  const tasks: number[] = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration)));
  observer.observe({ entryTypes: ["longtask"] });
  let [frames, rows, nodes] = [0, 0, 0];
  const step = Math.max(tree.scrollHeight / 300, 200);
  for (let top = 0; top < tree.scrollHeight; top += step) {
    tree.scrollTop = top;
    await new Promise((resolve) => requestAnimationFrame(resolve));
    frames++;
    rows = Math.max(rows, tree.querySelectorAll('[role="treeitem"]').length);
    nodes = Math.max(nodes, document.querySelectorAll("*").length);
  }
  tree.scrollTop = tree.scrollHeight;
  await new Promise((resolve) => setTimeout(resolve, 100));
  observer.disconnect();
  return { longest: Math.max(0, ...tasks), frames, rows, nodes };
}
