import { isNoTurn } from "../../../engine/turn-execution.ts";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import type { Inspection } from "../../../engine/contract/backend.ts";
import { lock } from "./lock.ts";
import { readFormat } from "../store/migrations.ts";
import { codes, isSqliteError, StoreError, toStoreError } from "./sqlite-error.ts";
import { format } from "../store/sql.ts";

/** Reads the counts of a file and leaves nothing behind; rejects with the reason why a server could not use it. */
export async function inspect(path: string): Promise<Inspection> {
  const unused: Inspection = { place: path, facts: ["is created at the first start"], isInUse: false, executions: {} };
  if (path === ":memory:") return unused;
  checkFolder(path);
  if (!existsSync(path)) return unused;
  try {
    const isInUse = isLocked(path);
    // Without a writer and a log beside it, the file can be opened without creating another file.
    const isWhole = !isInUse && !existsSync(`${path}-wal`);
    const { found, executions } = read(path, isWhole);
    const facts = [toMegabytes(statSync(path).size)];
    if (found !== 0 && found !== format) facts.push(`format ${found}, is migrated to ${format} at the next start`);
    return { place: path, facts, isInUse, executions };
  } catch (error) {
    throw toStoreError(path, error);
  }
}

function checkFolder(path: string): void {
  let folder = dirname(path);
  while (!existsSync(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw new StoreError(`${folder} cannot be written`, "grant write access, or use another file with --data", error);
  }
}

function isLocked(path: string): boolean {
  if (!existsSync(`${path}-lock`)) return false;
  try {
    lock(path)();
    return false;
  } catch (error) {
    if (isSqliteError(error, codes.busy)) return true;
    throw error;
  }
}

/** Counts the executions. The tables that are read are the same in every format. */
function read(path: string, isWhole: boolean): { found: number; executions: Inspection["executions"] } {
  const url = pathToFileURL(path);
  if (isWhole) url.searchParams.set("immutable", "1");
  const database = new DatabaseSync(url, { readOnly: true });
  try {
    const found = readFormat(database, path);
    if (found === 0) return { found, executions: {} };
    const rows = database
      .prepare(`select status, count(*) as count from executions where ${isNoTurn} group by status`)
      .all();
    return { found, executions: Object.fromEntries(rows.map(({ status, count: many }) => [status, Number(many)])) };
  } finally {
    database.close();
  }
}

const toMegabytes = (bytes: number): string => `${(bytes / 1_048_576).toFixed(1)} MB`;
