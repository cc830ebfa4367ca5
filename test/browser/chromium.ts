import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** The path of Chromium: `CHROMIUM_PATH`, else the first one on the PATH under one of its names. */
export function findChromium(): string {
  const { CHROMIUM_PATH: named, PATH = "" } = process.env;
  if (named) return named;
  const names = ["chromium", "chromium-browser", "google-chrome"];
  const found = names.flatMap((name) => PATH.split(delimiter).map((folder) => join(folder, name))).find(isExecutable);
  if (!found) throw new Error("Chromium is not installed: apt-get install chromium, or set CHROMIUM_PATH");
  return found;
}

/** Called by Vitest before any test: without Chromium the run fails with one message. */
export function setup(): void {
  findChromium();
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
