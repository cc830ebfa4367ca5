import { statSync } from "node:fs";
import { attempt } from "../../../core/attempt.ts";
import { lock } from "./lock.ts";
import { StoreError } from "./sqlite-error.ts";

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
