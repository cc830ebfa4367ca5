import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** The path of a data file in a folder of its own, until the test is over. */
export function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-engine-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "data.db");
}
