import { attempt } from "../../../core/attempt.ts";
import { statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { recordHolder } from "./holder.ts";
import { codes, isSqliteError, StoreError } from "./sqlite-error.ts";

/**
 * Locks a data file for this process, through a separate lock file: the data itself can still be read and backed up. SQLite
 * uses a lock of the operating system: it ends with the process, also by a kill. Returns the unlock.
 */
export function lock(path: string): () => void {
  const database = new DatabaseSync(`${path}-lock`);
  try {
    database.exec("pragma journal_mode = memory; pragma busy_timeout = 0; begin exclusive");
  } catch (error) {
    database.close();
    throw error;
  }
  const removeRecord = recordHolder(path);
  return () => {
    removeRecord();
    database.close();
  };
}

export interface WaitOptions {
  readonly waitMs: number;
  /** Called once, when another process has the lock. */
  readonly onWait: () => void;
  readonly signal: AbortSignal;
}

/** Tries again while another process has the file; throws the last error after `waitMs`. */
export async function whenFree<T>(open: () => T, { waitMs, onWait, signal }: WaitOptions): Promise<T> {
  const until = performance.now() + waitMs;
  for (let waiting = false; ; waiting = true) {
    try {
      return open();
    } catch (error) {
      if (!isSqliteError(error, codes.busy) || performance.now() >= until) throw error;
    }
    if (!waiting) onWait();
    await sleep(50, undefined, { signal });
  }
}

/** The data files that servers of this process have locked. The signal is aborted when the server begins to close. */
type HeldFiles = Map<string, AbortSignal>;

// Not a variable of this module: a bundler, or a reload of it, can load the module twice in one process.
const place = Symbol.for("agentserve.held-files");
const held: HeldFiles = ((globalThis as { [place]?: HeldFiles })[place] ??= new Map());

/** Locks a data file for one server. Throws at once if another server of this process has it and is not closing. */
export function holdFile(path: string, closing: AbortSignal): () => void {
  refuseHeld(path);
  const unlock = lock(path);
  const key = identify(path)!;
  held.set(key, closing);
  return () => {
    held.delete(key);
    unlock();
  };
}

export function refuseHeld(path: string): void {
  if (findSignal(path)?.aborted !== false) return;
  throw new StoreError(
    `${path} is already open in this process: close() the other server first, or use another file`,
    "if modules are reloaded, keep one server in globalThis: see docs/embedding.md",
  );
}

/** Returns true if a server of this process has the file. */
export const isHeld = (path: string): boolean => findSignal(path) !== undefined;

function findSignal(path: string): AbortSignal | undefined {
  const key = held.size === 0 ? undefined : identify(path);
  return key === undefined ? undefined : held.get(key);
}

/** Identifies the lock file, not its path: a folder can have several paths. */
function identify(path: string): string | undefined {
  const stats = attempt(() => statSync(`${path}-lock`, { bigint: true, throwIfNoEntry: false }));
  return stats && `${stats.dev}:${stats.ino}`;
}
