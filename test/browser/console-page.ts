import type { BrowserContext, Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { findSerious } from "./axe.ts";
import { launchOnce } from "./stage.ts";

export interface ConsolePage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Everything that a browser complains of: errors, refusals by the policy, dialogs, requests to other origins. */
  readonly faults: string[];
  /** The requests that had an error as their answer, or none. A test may expect some. */
  readonly refusals: string[];
}
export interface PageOptions {
  readonly colorScheme?: "light" | "dark";
  readonly width?: number;
  /** Opens the tab in a profile that exists. @default a new one */
  readonly context?: BrowserContext;
}

/** Opens a place of the console in a new tab. */
export async function openPage(url: string, options: PageOptions = {}): Promise<ConsolePage> {
  const { colorScheme = "light", width = 1280 } = options;
  const browser = await launchOnce();
  const context = options.context ?? (await browser.newContext({ colorScheme, viewport: { width, height: 800 } }));
  context.setDefaultTimeout(patienceMs);
  if (!options.context) onTestFinished(() => context.close());
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

/** Nothing serious is found by axe-core, and nothing is wider than the window. */
export async function expectAccessible(page: Page): Promise<void> {
  expect(await findSerious(page)).toEqual([]);
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
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
