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
  it(`scrolls through ${count} items of a run with few rows in the document`, async () => {
    const server = await openConsole({ workflows: [loop] });
    const json = { input: { count }, options: { executionId: "run-1" } };
    expect((await server.ask("/workflows/loop/execute", { json })).status).toBe(200);
    const { page, faults } = await openPage(`${server.url}/console#/runs/loop/run-1?step=each`);
    await page.getByRole("button", { name: `${count} items` }).click();
    await page.getByRole("treeitem", { name: /^0 item/ }).waitFor();
    const reading = await page.evaluate(readAll, count);
    const scrolled = await page.evaluate(scroll);
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("HeapProfiler.enable");
    await devtools.send("HeapProfiler.collectGarbage");
    const { usedSize } = await devtools.send("Runtime.getHeapUsage");
    for (const { rows, nodes } of [reading, scrolled]) {
      expect(rows).toBeLessThan(60);
      expect(nodes).toBeLessThan(1_000);
    }
    expect(usedSize / 1024 / 1024).toBeLessThan(60);
    await page.getByRole("treeitem", { name: new RegExp(`^${count - 1} item`) }).click();
    await page.getByRole("heading", { name: `each/${count - 1}` }).waitFor();
    await page.getByRole("group", { name: "Output" }).getByText("true").waitFor();
    expect(faults).toEqual([]);
  });
});

/** The max numbers of elements that were in the document. */
interface Scrolled {
  readonly rows: number;
  readonly nodes: number;
}

// The functions below run in the page.

/** Scrolls to the end again and again, until all items were read. */
async function readAll(wanted: number): Promise<Scrolled> {
  const tree = document.querySelector('[role="tree"]')!;
  for (let rows = 0, nodes = 0; ;) {
    tree.scrollTop = tree.scrollHeight;
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    rows = Math.max(rows, tree.querySelectorAll('[role="treeitem"]').length);
    nodes = Math.max(nodes, document.querySelectorAll("*").length);
    const last = tree.querySelector('[role="treeitem"]:last-of-type');
    const isRead = last?.getAttribute("aria-setsize") === String(wanted);
    if (isRead && tree.textContent.includes(`${wanted - 1} item`)) return { rows, nodes };
  }
}

/** Scrolls from the beginning to the end, a part in each frame. */
async function scroll(): Promise<Scrolled> {
  const tree = document.querySelector('[role="tree"]')!;
  let [rows, nodes] = [0, 0];
  const step = Math.max(tree.scrollHeight / 300, 200);
  for (let top = 0; top < tree.scrollHeight + step; top += step) {
    tree.scrollTop = top;
    await new Promise((resolve) => requestAnimationFrame(resolve));
    rows = Math.max(rows, tree.querySelectorAll('[role="treeitem"]').length);
    nodes = Math.max(nodes, document.querySelectorAll("*").length);
  }
  return { rows, nodes };
}
