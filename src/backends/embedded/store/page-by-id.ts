import { executionStatuses, type ExecutionStatus } from "../../../engine/execution.ts";
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import type { ListFilter } from "../../../engine/contract/engine.ts";
import { isNoTurn } from "../../../engine/turn-execution.ts";

/** Finds the executions of a page among all whose id has its beginning: the index of the ids does not know their times. */
export class PageById {
  readonly #statements: ListStatements;

  constructor(statements: ListStatements) {
    this.#statements = statements;
  }

  /** True if so few ids begin with this text that one statement can read all of them. */
  hasFew(prefix: string): boolean {
    const sql = `select count(*) as count from (select 1 from executions where id >= :from and id < :to limit ${maxRows})`;
    const { count } = this.#statements.prepare(sql).get(toRange(prefix)) as { count: number };
    return count < maxRows;
  }

  /** Returns the executions of the page and the next one. `pause` is called between two statements. */
  async find(filter: ListFilter & { readonly idPrefix: string }, pause: () => Promise<void>): Promise<number[]> {
    const { sql, values } = toPage(filter);
    const { from, to } = toRange(filter.idPrefix);
    let found: PageRow[] = [];
    for (let next: string | undefined = from; next !== undefined;) {
      await pause();
      const end = this.#toEnd(next, to);
      const rows = this.#statements.prepare(sql).all({ ...values, from: next, to: end ?? to }) as unknown as PageRow[];
      found = [...found, ...rows.filter((row) => isMatch(row, filter))]
        .toSorted((one, other) => (isBefore(one, other) ? 1 : -1))
        .slice(0, filter.limit + 1);
      next = end;
    }
    return found.map(({ number }) => number);
  }

  /** The id at which the next statement begins; undefined if one statement can look at the rest. */
  #toEnd(from: string, to: string): string | undefined {
    const sql = "select id from executions where id >= :from and id < :to order by id limit 1 offset :rows";
    return (this.#statements.prepare(sql).get({ from, to, rows: maxRows }) as { id: string } | undefined)?.id;
  }
}

function toPage(filter: ListFilter): { sql: string; values: Named } {
  const { workflowId, since = 0, limit } = filter;
  const userId = filter.userId ?? undefined;
  const statuses = toStatuses(filter);
  const condition = toTextCondition(filter);
  // The plus keeps SQLite from other indexes.
  const where = [
    "id >= :from and id < :to and (+started, id) < (:started, :before) and +started >= :since",
    isNoTurn,
    ...(workflowId === undefined ? [] : ["+workflow = :workflow"]),
    ...(userId === undefined ? [] : ["+user = :user"]),
    ...(statuses ? [`+status in (${statuses.map((status) => `'${status}'`).join(", ")})`] : []),
    ...(condition === undefined ? [] : [condition]),
  ].join(" and ");
  const { started, id: before } = toFirst(filter);
  // Rows that `isMatch` refuses must not take the places of others.
  const isExact = filter.kind === undefined && filter.isCancelled === undefined && filter.userId !== null;
  return {
    sql: `select ${toColumns(filter)} from executions where ${where} order by +started desc, id desc limit :limit`,
    values: {
      started,
      before,
      since,
      limit: isExact ? limit + 1 : maxRows + 1,
      ...(workflowId !== undefined && { workflow: workflowId }),
      ...(userId !== undefined && { user: userId }),
    },
  };
}

const toRange = (prefix: string): { from: string; to: string } => ({ from: prefix, to: `${prefix}\u{10FFFF}` });

/** A place in a list, newest first. */
export interface RowPlace {
  readonly started: number;
  readonly id: string;
}
/** An execution of a list, with the columns that its filter needs. */
export interface PageRow extends RowPlace {
  readonly number: number;
  readonly user?: string | null;
  /** 1 if the execution was cancelled. */
  readonly cancelled?: number;
  readonly kind?: "system" | null;
  readonly kinds?: string | null;
  readonly branches?: number | null;
}
export type Named = Record<string, SQLInputValue>;

/** Max rows that one statement looks at. */
export const maxRows = 1_000;

/** The statements of lists, each prepared once. There are as many as combinations of filters. */
export class ListStatements {
  readonly #db: DatabaseSync;
  readonly #known = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  prepare(sql: string): StatementSync {
    const known = this.#known.get(sql) ?? this.#db.prepare(sql);
    this.#known.set(sql, known);
    return known;
  }
}

/** The place before the first execution that a filter allows. */
export function toFirst({ until = Number.MAX_SAFE_INTEGER - 1, before }: ListFilter): RowPlace {
  return !before || before.startAt > until
    ? { started: until + 1, id: "" }
    : { started: before.startAt, id: before.id };
}

/** True if a row comes after another one, newest first. */
export function isBefore(row: RowPlace | undefined, other: RowPlace | undefined): boolean {
  if (!row || !other) return other !== undefined;
  return row.started < other.started || (row.started === other.started && row.id < other.id);
}

/** The statuses that can fit; undefined for any. */
export function toStatuses({ status, kind, isCancelled }: ListFilter): ExecutionStatus[] | undefined {
  if (!status && !kind && !isCancelled) return undefined;
  return [...new Set(status ?? executionStatuses)].filter(
    (one) => (!kind || one === "suspended") && (!isCancelled || one === "error"),
  );
}

export function toColumns({ kind, isCancelled, userId }: ListFilter): string {
  const columns = ["number", "started", "id"];
  if (userId === null) columns.push("user");
  if (isCancelled !== undefined)
    columns.push("status = 'error' and json_type(last, '$.cancellation') is not null as cancelled");
  if (kind)
    columns.push(
      "json_extract(last, '$.kind') as kind",
      "json_extract(last, '$.kinds') as kinds",
      "json_array_length(last, '$.pending') as branches",
    );
  return columns.join(", ");
}

/**
 * Returns a condition that rows without a fitting kind or cancellation do not meet, nearly all of them. It looks at the text:
 * to parse the JSON of ten thousand rows takes too long. `isMatch` decides. Values are texts inside of texts, so that a
 * quote in them is escaped. Undefined if most rows fit.
 */
export function toTextCondition({ kind, isCancelled }: ListFilter): string | undefined {
  const conditions: string[] = [];
  if (isCancelled) conditions.push(has('"cancellation":'));
  if (kind) conditions.push(`(${kind.map((one) => kindTexts[one]).join(" or ")})`);
  return conditions.length === 0 ? undefined : conditions.join(" and ");
}

const has = (text: string): string => `instr(last, '${text}') > 0`;
const kindTexts: Readonly<Record<NonNullable<ListFilter["kind"]>[number], string>> = {
  // A suspension whose branches all wait for people has no kinds.
  person: `${has('"person"')} or not (${[has('"kinds":'), has('"pending":[]'), has('"kind":"system"')].join(" or ")})`,
  timer: has('"timer"'),
  event: has('"event"'),
  request: has('"pending":[]'),
  system: has('"kind":"system"'),
};

/** Checks the parts of a filter that have no index. */
export function isMatch(row: PageRow, { idPrefix = "", isCancelled, kind, userId }: ListFilter): boolean {
  if (!row.id.startsWith(idPrefix)) return false;
  if (userId === null && row.user !== null) return false;
  if (isCancelled !== undefined && (row.cancelled === 1) !== isCancelled) return false;
  if (!kind) return true;
  const { kind: own, kinds, branches } = row;
  const found = own ? [own] : branches === 0 ? ["request"] : kinds ? JSON.parse(kinds) : ["person"];
  return kind.some((one) => found.includes(one));
}
