import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Creates the folder of the file, for its owner only, and keeps it out of version control. An existing one stays as it is. */
export function prepareFolder(folder: string): void {
  if (existsSync(folder)) return;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, ".gitignore"), "*\n");
}
