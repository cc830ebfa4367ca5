import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { codes, isSqliteError } from "./sqlite-error.ts";

/**
 * One process per file. A file of its own, so that others may read the data or back it up while it is served. SQLite locks
 * it through the system, which forgets the locks of a process that was killed. Returns how to give it up.
 */
export function lock(path: string): () => void {
  const database = new DatabaseSync(`${path}-lock`);
  try {
    database.exec("pragma journal_mode = memory; pragma busy_timeout = 0; begin exclusive");
  } catch (error) {
    database.close();
    throw error;
  }
  return () => database.close();
}

export interface WaitOptions {
  readonly waitMs: number;
  /** Somebody else has it. */
  readonly onWait: () => void;
  readonly signal: AbortSignal;
}

/** Tries again while somebody else has what it needs; throws what it threw last when that takes too long. */
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
