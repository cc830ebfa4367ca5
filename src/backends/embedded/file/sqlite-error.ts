import { busy, toErrorMessage, type ServeError } from "../../../core/error.ts";
import { findHolder, toHolderText } from "./holder.ts";

/** The primary result codes of SQLite that we tell apart. */
export const codes = {
  busy: 5,
  locked: 6,
  noMemory: 7,
  readOnly: 8,
  disk: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  notADatabase: 26,
} as const;

export function isSqliteError(error: unknown, ...among: number[]): boolean {
  const { code, errcode } = error as { code?: string; errcode?: number };
  return code === "ERR_SQLITE_ERROR" && among.includes((errcode ?? 0) & 0xff);
}

/** The reason why the store cannot be opened, with a hint. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly hint: string;

  constructor(message: string, hint: string, cause?: unknown) {
    super(message, { cause });
    this.hint = hint;
  }
}

/** The store cannot be written now; a later request may succeed. */
export const unavailable = (message: string, cause: unknown): ServeError => busy(message, 1, cause);

export function toStoreError(path: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const reason = toErrorMessage(error).replace(/\s+/g, " ");
  const explain = (what: string, hint: string) => new StoreError(`${path} ${what}`, hint, error);
  if (isSqliteError(error, codes.busy)) {
    const holder = findHolder(path);
    const stop = holder ? `stop process ${holder.pid}` : "stop that process";
    return explain(`is in use by another process${toHolderText(holder)}`, `${stop}, or use another file with --data`);
  }
  if (isSqliteError(error, codes.corrupt, codes.notADatabase))
    return explain(
      `is damaged or is not an agentserve store: ${reason}`,
      "restore it, or move it away to start with an empty store",
    );
  if (isSqliteError(error, codes.readOnly, codes.full, codes.disk))
    return explain(
      `cannot be written: ${reason}`,
      "free disk space or grant write access, or use another file with --data",
    );
  return explain(`cannot be opened: ${reason}`, "check its folder, or use another file with --data");
}
