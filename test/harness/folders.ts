import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, onTestFinished } from "vitest";

const create = (name: string): string => mkdtempSync(join(tmpdir(), `agentserve-${name}-`));
const remove = (folder: string): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });

/** A new folder, which is removed at the end of the test. */
export function createFolder(name: string): string {
  const folder = create(name);
  onTestFinished(() => remove(folder));
  return folder;
}

/** A new folder, which is removed after the last test of the file. */
export function createSharedFolder(name: string): string {
  const folder = create(name);
  afterAll(() => remove(folder));
  return folder;
}

/** The path of a data file in a folder of its own, until the test is over. */
export const newFile = (): string => join(createFolder("file"), "data.db");
