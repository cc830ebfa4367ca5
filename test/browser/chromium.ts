import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Where Chromium is: in `CHROMIUM_PATH`, else on the PATH under one of its names; undefined where there is none. */
export function findChromium(): string | undefined {
  const { CHROMIUM_PATH: named, PATH = "" } = process.env;
  if (named) return named; // a wrong one fails the tests: whoever set it does not want them skipped
  const names = ["chromium", "chromium-browser", "google-chrome"];
  return names.flatMap((name) => PATH.split(delimiter).map((folder) => join(folder, name))).find(isExecutable);
}

/** Called by Vitest, once, before any test. */
export function setup(): void {
  if (findChromium()) return;
  console.warn("Browser tests skipped: no Chromium here. `apt-get install chromium`, or set CHROMIUM_PATH.");
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
