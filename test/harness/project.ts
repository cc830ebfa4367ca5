import { createHash } from "node:crypto";
import { mkdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { atEnd } from "./at-end.ts";

/** A folder with these files, and this project's own packages, until the test is over. */
export function createProject(files: Record<string, string>): string {
  const folder = createFolder(createHash("sha256").update(JSON.stringify(files)).digest("hex").slice(0, 12));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  return folder;
}

/**
 * Projects with the same files have the same path, unless they exist at the same time. jiti caches compiled files by path:
 * a process that finds all of them in the cache does not load Babel, which is half of the CPU time of a start.
 */
function createFolder(name: string): string {
  for (let count = 0; ; count++) {
    const folder = join(realpathSync(tmpdir()), `agentserve-${name}-${count}`);
    try {
      mkdirSync(folder, { mode: 0o700 });
      return folder;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}
