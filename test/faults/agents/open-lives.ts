import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { Lives } from "./lives.ts";
import { readLog } from "./log.ts";

/** The lives of a host on a new folder, for as long as the test runs. `log` returns the lines that the host has written. */
export function openLives<Line>(name: string, host: string) {
  const outer = mkdtempSync(join(tmpdir(), `agentserve-${name}-`));
  onTestFinished(() => rmSync(outer, { recursive: true, force: true }));
  const folder = join(outer, "data"); // beside it is the compile cache
  mkdirSync(folder);
  const lives = new Lives(folder, host);
  onTestFinished(() => lives.close());
  return { folder, lives, log: (): Line[] => readLog(join(folder, "log")) as unknown as Line[] };
}
