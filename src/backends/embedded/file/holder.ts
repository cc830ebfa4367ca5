import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { attempt } from "../../../core/attempt.ts";

/** The process that holds a locked data file. */
export interface FileHolder {
  readonly pid: number;
  /** The URL of its server, once it listens. */
  readonly url?: string | undefined;
}

/**
 * Records this process as the holder of a locked data file. The record is a file beside the lock: opening and closing the
 * lock file itself would release the lock. Returns a function that removes the record.
 */
export function recordHolder(path: string, url = ""): () => void {
  const file = toFile(path);
  // Only for an error message: a full disk must not prevent the start.
  attempt(() => writeFileSync(file, `${process.pid} ${hostname()} ${url}\n`, { mode: 0o600 }));
  return () => attempt(() => rmSync(file, { force: true }));
}

/**
 * The other process that holds a locked data file. Undefined if it is not known: a record may be left by a process that
 * was killed, and a pid of another machine or container means nothing here.
 */
export function findHolder(path: string): FileHolder | undefined {
  const text = attempt(() => readFileSync(toFile(path), "utf8")) ?? "";
  const [, digits, host, url] = /^([1-9]\d*) (\S+) (https?:\/\/\S{1,300})?\n$/.exec(text) ?? [];
  const pid = Number(digits);
  if (host !== hostname() || pid === process.pid || !isAlive(pid)) return undefined;
  return { pid, url };
}

/** Continues "another process" in a message. */
export const toHolderText = (holder: FileHolder | undefined): string =>
  holder ? ` (${[`pid ${holder.pid}`, holder.url].filter(Boolean).join(", ")})` : "";

const toFile = (path: string): string => `${path}-pid`;

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0); // sends no signal
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // of another user
  }
}
