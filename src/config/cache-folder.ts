import { statSync, type Stats } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Returns the folder of compiled files. They are code: they are cached beside the packages, never in a folder that other
 * users can write to.
 */
export function toCacheFolder(root: string): string | false {
  for (let folder = root; ; folder = dirname(folder)) {
    const packages = join(folder, "node_modules");
    const found = statSync(packages, { throwIfNoEntry: false });
    if (found) return isPrivate(found) && join(packages, ".cache", "agentserve");
    if (folder === dirname(folder)) return false;
  }
}

const isPrivate = ({ uid, mode }: Stats): boolean =>
  process.getuid === undefined || ([0, process.getuid()].includes(uid) && (mode & 0o002) === 0);
