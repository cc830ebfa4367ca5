import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { AxeResults } from "axe-core";
import type { BrowserContext, Page } from "playwright-core";
import { expect } from "vitest";
import { eventually } from "../harness/waiting.ts";
import { openProfile } from "./profile.ts";

export interface ConsolePage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Everything that a browser complains of: errors, refusals by the policy, dialogs, requests to other origins. */
  readonly faults: string[];
  /** The requests that had an error as their answer, or none. A test may expect some. */
  readonly refusals: string[];
}
export interface PageOptions {
  /** Opens the tab in a profile that exists. @default a new one */
  readonly context?: BrowserContext;
}

/** Opens a page of the server in a new tab. */
export async function openPage(url: string, options: PageOptions = {}): Promise<ConsolePage> {
  const context = options.context ?? (await openProfile({ viewport: { width: 1280, height: 800 } }));
  const page = await context.newPage();
  const faults: string[] = [];
  const refusals: string[] = [];
  const { origin } = new URL(url);
  page.on("request", (request) => {
    const isOwn = new URL(request.url()).origin === origin || request.url().startsWith("data:");
    if (!isOwn) faults.push(`asked for ${request.url()}`);
  });
  page.on("console", (message) => {
    if (!["error", "warning"].includes(message.type())) return;
    const isRefusal = /status of [45]\d\d|ERR_(CONNECTION|INCOMPLETE|EMPTY)/.test(message.text());
    (isRefusal ? refusals : faults).push(message.text());
  });
  page.on("pageerror", (error) => void faults.push(String(error)));
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  return { page, context, faults, refusals };
}

/** Fails if the browser has complained of anything, or a request was refused. */
export function expectNoProblems({ faults, refusals }: Pick<ConsolePage, "faults" | "refusals">): void {
  expect({ faults, refusals }).toEqual({ faults: [], refusals: [] });
}

interface View {
  readonly colorScheme: "light" | "dark";
  readonly width: number;
}

/** Shows a page in light and dark, on a phone and on a desktop. Takes screenshots into the folder that SCREENSHOTS names. */
export async function inEachView(page: Page, name: string, look?: (view: View) => Promise<void>): Promise<void> {
  const folder = process.env["SCREENSHOTS"];
  for (const colorScheme of ["light", "dark"] as const) {
    for (const width of [360, 1280]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      await look?.({ colorScheme, width });
      if (folder) await page.screenshot({ path: join(folder, `${name}-${colorScheme}-${width}.png`) });
    }
  }
}

/** In each view axe-core finds nothing serious, and nothing is wider than the window. */
export const expectAccessible = (page: Page, name: string): Promise<void> =>
  inEachView(page, name, ({ colorScheme, width }) =>
    eventually(async () => {
      expect(await findSerious(page), `${name}, ${colorScheme}, ${width}`).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
    }),
  );

const axe = readFileSync(resolve("node_modules/axe-core/axe.min.js"), "utf8");

/** Returns what axe-core finds serious or critical on a page, one line each. */
async function findSerious(page: Page): Promise<string[]> {
  // A script element would be refused by the policy of the page.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    (window as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary ?? ""}`));
}

/** Presses Tab until an element with this name has the focus. */
export async function tabTo(page: Page, name: RegExp): Promise<void> {
  const seen: string[] = [];
  for (let presses = 0; presses < 100; presses++) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(() => {
      const { activeElement: element } = document;
      const label = element instanceof HTMLInputElement ? element.labels?.[0]?.textContent : undefined;
      return label ?? element?.getAttribute("aria-label") ?? element?.textContent ?? "";
    });
    if (name.test(found)) return;
    seen.push(found.slice(0, 30));
  }
  throw new Error(`no ${name} by Tab: ${seen.join(" | ")}`);
}
