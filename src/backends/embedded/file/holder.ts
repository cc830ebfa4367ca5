import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { attempt } from "../../../core/attempt.ts";

/**
 * Records this process as the holder of a locked data file. The record is a file beside the lock: opening and closing the
 * lock file itself would release the lock. Returns a function that removes the record.
 */
export function recordHolder(path: string): () => void {
  const file = toFile(path);
  // Only for an error message: a full disk must not prevent the start.
  attempt(() => writeFileSync(file, `${process.pid} ${hostname()}\n`, { mode: 0o600 }));
  return () => attempt(() => rmSync(file, { force: true }));
}

/**
 * The pid of the other process that holds a locked data file. Undefined if it is not known: a record may be left by a
 * process that was killed, and a pid of another machine or container means nothing here.
 */
export function findHolder(path: string): number | undefined {
  const text = attempt(() => readFileSync(toFile(path), "utf8")) ?? "";
  const [, digits, host] = /^([1-9]\d*) (.+)\n$/.exec(text) ?? [];
  const pid = Number(digits);
  if (host !== hostname() || pid === process.pid || !isAlive(pid)) return undefined;
  return pid;
}

/** Continues "another process" in a message. */
export const toPidText = (pid: number | undefined): string => (pid === undefined ? "" : ` (pid ${pid})`);

const toFile = (path: string): string => `${path}-pid`;

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0); // sends no signal
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // of another user
  }
}
