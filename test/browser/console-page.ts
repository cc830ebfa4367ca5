import type { Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { findSerious } from "./axe.ts";
import { launchOnce } from "./stage.ts";

export interface ConsolePage {
  readonly page: Page;
  /** Everything that a browser complains of: errors, refusals by the policy, dialogs, requests to other origins. */
  readonly faults: string[];
}
export interface PageOptions {
  readonly colorScheme?: "light" | "dark";
  readonly width?: number;
}

/** Opens a place of the console in a new profile. Answers with an error status are not faults. */
export async function openPage(url: string, options: PageOptions = {}): Promise<ConsolePage> {
  const { colorScheme = "light", width = 1280 } = options;
  const browser = await launchOnce();
  const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } });
  context.setDefaultTimeout(patienceMs);
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const faults: string[] = [];
  const { origin } = new URL(url);
  page.on("request", (request) => {
    const isOwn = new URL(request.url()).origin === origin || request.url().startsWith("data:");
    if (!isOwn) faults.push(`asked for ${request.url()}`);
  });
  page.on("console", (message) => {
    const isFault = ["error", "warning"].includes(message.type());
    if (isFault && !/status of [45]\d\d|ERR_(CONNECTION|INCOMPLETE|EMPTY)/.test(message.text()))
      faults.push(message.text());
  });
  page.on("pageerror", (error) => void faults.push(String(error)));
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  return { page, faults };
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
