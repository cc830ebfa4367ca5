import type { SQLInputValue, StatementSync } from "node:sqlite";
import type { statements } from "./sql.ts";

export type Statements = Record<keyof typeof statements, StatementSync>;

/** The rows that are read at once. */
export const pageRows = 1_000;

/** All rows of a statement. Their type is that of the columns in its text, which the compiler cannot check. */
export function rows<T>(statement: StatementSync, ...values: SQLInputValue[]): T[] {
  return statement.all(...values) as unknown as T[];
}
