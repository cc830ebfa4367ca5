import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

const source = readFileSync(resolve("node_modules/axe-core/axe.min.js"), "utf8");

/** Returns what axe-core finds serious or critical on a page, one line each. */
export async function findSerious(page: Page): Promise<string[]> {
  // A script element would be refused by the policy of the page.
  await page.evaluate(source);
  const { violations } = await page.evaluate(
    () => (window as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
    undefined,
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary ?? ""}`));
}
