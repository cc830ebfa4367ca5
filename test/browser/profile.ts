import { chromium, type Browser, type BrowserContext, type BrowserContextOptions } from "playwright-core";
import { afterAll, onTestFinished } from "vitest";
import { findChromium } from "./chromium.ts";

/** A safety net for each step in a page: Swagger UI alone takes over 30 s to draw on a busy machine. */
const stepMs = 120_000;

/** Opens a new profile of the browser, without cookies and caches, until the test is over. */
export async function openProfile(options?: BrowserContextOptions): Promise<BrowserContext> {
  const profile = await (await launchOnce()).newContext(options);
  onTestFinished(() => profile.close());
  profile.setDefaultTimeout(stepMs);
  return profile;
}

/** The browser of all tests of a file. */
const launchOnce = (): Promise<Browser> => (launched ??= launch());
let launched: Promise<Browser> | undefined;
afterAll(async () => (await launched)?.close());

function launch(): Promise<Browser> {
  const rules = "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost"; // nothing leaves this machine
  return chromium.launch({
    executablePath: findChromium(),
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-proxy-server",
      `--host-resolver-rules=${rules}`,
    ],
  });
}
