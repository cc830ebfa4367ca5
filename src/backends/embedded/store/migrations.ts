import type { DatabaseSync } from "node:sqlite";
import { childTable } from "./tables/child-table.ts";
import { addConversationRows } from "./tables/conversation-table.ts";
import { eventTable } from "./tables/event-table.ts";
import { messageMigrations } from "./message-store.ts";
import { pendingCallTable } from "./tables/pending-call-table.ts";
import { recordTable } from "./tables/record-table.ts";
import { scheduleTable } from "./tables/schedule-table.ts";
import { format, rareIndexes, schema } from "./sql.ts";
import { usageTable } from "./tables/usage-table.ts";
import { waitTables } from "./tables/wait-table.ts";
import { StoreError } from "../file/sqlite-error.ts";

/** The oldest format that can be migrated: release 1. */
const oldest = 4;

type Migration = string | ((db: DatabaseSync) => void);
/** The statements that lead to each format from the one before it. A released migration never changes. */
const migrations: Readonly<Record<number, readonly Migration[]>> = {
  5: [
    "alter table executions add column crashes integer not null default 0",
    "alter table executions add column crash_row integer",
    "alter table executions add column isolated integer not null default 0",
    ...rareIndexes,
    "create table process(id integer primary key check (id = 1), clean integer not null) strict",
  ],
  6: ["alter table executions add column retried text"],
  7: [waitTables, eventTable],
  8: [childTable],
  9: [scheduleTable],
  10: [recordTable, ...messageMigrations],
  11: [addConversationRows],
  12: [pendingCallTable, usageTable],
  13: ["alter table executions add column copied text", "alter table journal add column copied text"],
};

/**
 * Creates the tables of a new file, or brings an older file to the current format. One transaction: a process that dies
 * meanwhile leaves the file as it was. Returns the format that the file had; 0 for a new one.
 */
export function migrate(db: DatabaseSync, path: string): number {
  const found = readFormat(db, path);
  if (found === format) return found;
  const numbers = Array.from({ length: format - found }, (_, index) => found + 1 + index);
  const statements: Migration[] = found === 0 ? [schema] : numbers.flatMap((number) => migrations[number]!);
  db.exec("begin immediate");
  try {
    for (const statement of statements) {
      if (typeof statement === "string") db.exec(statement);
      else statement(db);
    }
    db.exec(`pragma user_version = ${format}`);
    db.exec("commit");
  } catch (error) {
    if (db.isTransaction) db.exec("rollback");
    throw error;
  }
  return found;
}

/** Returns the format of a file, 0 for an empty one. Throws when this version can neither read nor migrate it. */
export function readFormat(db: DatabaseSync, path: string): number {
  const { user_version: found } = db.prepare("pragma user_version").get() as { user_version: number };
  const has = (where: string): boolean => db.prepare(`select 1 from sqlite_master where ${where}`).get() !== undefined;
  const isKnown = found >= oldest && found <= format;
  if (found === 0 ? has("true") : isKnown && !has("name = 'executions'"))
    throw new StoreError(`${path} is a database of another application`, "use another file with --data");
  if (found === 0 || isKnown) return found;
  throw new StoreError(
    `${path} has format ${found}, but this version of agentserve reads format ${format}`,
    "use the version that wrote it, or another file with --data",
  );
}
