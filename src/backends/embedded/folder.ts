import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Creates the folder of the file and keeps it out of version control. */
export function prepareFolder(folder: string): void {
  if (existsSync(folder)) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, ".gitignore"), "*\n");
}
