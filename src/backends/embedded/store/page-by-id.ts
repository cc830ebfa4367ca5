import type { ListFilter } from "../../../engine/contract/engine.ts";
import { isNoTurn } from "../../../engine/turn-execution.ts";
import {
  isBefore,
  isMatch,
  maxRows,
  toColumns,
  toFirst,
  toStatuses,
  toTextCondition,
  type ListStatements,
  type Named,
  type PageRow,
} from "./page-rows.ts";

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

  /** Returns the executions of the page and the first of the next one. `pause` is called between two statements. */
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
