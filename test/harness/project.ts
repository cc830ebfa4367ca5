import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { onTestFinished } from "vitest";

/** A folder with these files, and this project's own packages, until the test is over. */
export function createProject(files: Record<string, string>): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "agentserve-")));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  return folder;
}
