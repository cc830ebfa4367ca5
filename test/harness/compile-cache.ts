import { spawnSync } from "node:child_process";
import { resolve } from "node:path";

/**
 * Lets the processes that tests start share what Node makes of the source files: without it, each one that runs `src`
 * strips the types of all of them again, which takes a second. Called by Vitest before the first test.
 */
export function setup(): void {
  process.env["NODE_COMPILE_CACHE"] = resolve("node_modules/.cache/agentserve-tests");
  // A process that is killed leaves nothing in the cache, and most are.
  spawnSync(process.execPath, ["test/harness/host.ts"], { stdio: "ignore" });
}
