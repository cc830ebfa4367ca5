import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { install, npm, pack } from "../harness/packed.ts";

/**
 * Installs the packages of `test/hosts/<name>` by its lockfile, unless they are installed. Returns the folder. With
 * `agentserve`, this package is installed beside them, as built and packed, like a user would install it.
 */
export function installHost(name: string, options: { agentserve?: boolean } = {}): string {
  const folder = join(import.meta.dirname, name);
  if (!isInstalled(folder)) npm(["ci", "--prefer-offline", "--no-audit", "--no-fund"], folder);
  if (!options.agentserve) return folder;
  const packed = mkdtempSync(join(tmpdir(), "agentserve-packed-")); // another run may pack at the same time
  install(folder, "--no-save", "--no-package-lock", pack(packed));
  rmSync(packed, { recursive: true });
  return folder;
}

/** Compares the lockfile with the copy that npm keeps of the last install. */
function isInstalled(folder: string): boolean {
  const copy = join(folder, "node_modules/.package-lock.json");
  if (!existsSync(copy)) return false;
  const wanted = readPackages(join(folder, "package-lock.json"));
  const installed = readPackages(copy);
  return Object.keys(wanted).every((path) => path === "" || wanted[path].optional || path in installed);
}

const readPackages = (file: string): Record<string, any> => JSON.parse(readFileSync(file, "utf8")).packages;
