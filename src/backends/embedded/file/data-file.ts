import { chmodSync, closeSync, openSync, statSync, type BigIntStats } from "node:fs";
import { attempt } from "../../../core/attempt.ts";

const ownerOnly = 0o600;

/** Creates an empty file that only its owner can read. SQLite gives its log beside it the same mode. */
export function createPrivately(path: string): void {
  // It may exist. If it cannot be created, SQLite reports the reason.
  attempt(() => closeSync(openSync(path, "wx", ownerOnly)));
}

/** Takes the access of others away from a data file and the files beside it. Returns whether anything was changed. */
export function makePrivate(path: string): boolean {
  if (process.platform === "win32") return false;
  const shared = ["", "-wal", "-shm", "-lock", "-pid"].map((suffix) => path + suffix).filter(isShared);
  for (const file of shared) attempt(() => chmodSync(file, ownerOnly)); // another user may own it
  return shared.some((file) => !isShared(file));
}

/** True if others can read or write the file. */
const isShared = (file: string): boolean => ((statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0;

/** Thrown instead of a commit into a file that is no longer at its path. */
export class FileGoneError extends Error {
  override readonly name = "FileGoneError";
}

/** The identity of an open data file and its log. SQLite itself does not notice that they were deleted or replaced. */
export class DataFile {
  readonly #path: string;
  #lookedAt = -Infinity;
  readonly #identities: readonly (readonly [file: string, identity: string | undefined])[];

  /** The log must exist: it does once the database was read. */
  constructor(path: string) {
    this.#path = path;
    this.#identities = [path, `${path}-wal`].map((file) => [file, identify(file)] as const);
  }

  get isThere(): boolean {
    return this.#identities.every(([file, identity]) => identify(file) === identity);
  }

  get logBytes(): number {
    return attempt(() => statSync(`${this.#path}-wal`, { throwIfNoEntry: false }))?.size ?? 0;
  }

  /** Throws if the file is gone. Looks at most every `lookMs`: at each commit it took 2 % of the CPU under load. */
  check(): void {
    const now = performance.now();
    if (now - this.#lookedAt < lookMs) return;
    if (!this.isThere) throw new FileGoneError(`${this.#path} was deleted or replaced`);
    this.#lookedAt = now;
  }
}

const lookMs = 100;

function identify(file: string): string | undefined {
  const stats: BigIntStats | undefined = attempt(() => statSync(file, { bigint: true, throwIfNoEntry: false }));
  return stats && `${stats.dev}:${stats.ino}`;
}
