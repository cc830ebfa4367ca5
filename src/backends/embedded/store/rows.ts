import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";

export type Prepared<Texts> = Record<keyof Texts, StatementSync>;

export function prepare<Texts extends Readonly<Record<string, string>>>(
  db: DatabaseSync,
  texts: Texts,
): Prepared<Texts> {
  const prepared = Object.entries(texts).map(([name, sql]) => [name, db.prepare(sql)]);
  return Object.fromEntries(prepared) as Prepared<Texts>;
}

/** The rows that are read at once. */
export const pageRows = 1_000;

/** All rows of a statement. Their type follows from the columns in its text: the compiler cannot check it. */
export function rows<T>(statement: StatementSync, ...values: SQLInputValue[]): T[] {
  return statement.all(...values) as unknown as T[];
}
