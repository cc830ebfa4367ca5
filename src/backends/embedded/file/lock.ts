import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { recordHolder } from "./holder.ts";
import { codes, isSqliteError } from "./sqlite-error.ts";

/**
 * Locks a data file for this process, through a separate lock file: the data itself can still be read and backed up. SQLite
 * uses a lock of the operating system, which ends with the process, however that dies. Returns the unlock.
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
export async function whenFree<T>(attempt: () => T, { waitMs, onWait, signal }: WaitOptions): Promise<T> {
  const until = performance.now() + waitMs;
  for (let waiting = false; ; waiting = true) {
    try {
      return attempt();
    } catch (error) {
      if (!isSqliteError(error, codes.busy) || performance.now() >= until) throw error;
    }
    if (!waiting) onWait();
    await sleep(50, undefined, { signal });
  }
}
