import type { DatabaseSync } from "node:sqlite";
import type { ListFilter } from "../../../engine/contract/engine.ts";
import { isNoTurn, isTurn } from "../../../engine/turn-execution.ts";
import {
  PageById,
  isBefore,
  isMatch,
  ListStatements,
  maxRows,
  toColumns,
  toFirst,
  toStatuses,
  toTextCondition,
  type Named,
  type PageRow,
  type RowPlace,
} from "./page-by-id.ts";

/** Max rows, newest first, that are compared with the beginning of an id. After them, all ids with that beginning are read. */
const maxScanned = 2_000;

/**
 * Finds the executions of a page, newest first.
 *
 * The indexes are by workflow, so that a start touches few pages of the file. A list over several workflows or statuses
 * merges one list for each. A filter without an index is checked row by row. Rows are read in chunks, and
 * other work of the process runs between them.
 */
export class PageNumbers {
  readonly #statements: ListStatements;
  readonly #byId: PageById;

  constructor(db: DatabaseSync) {
    this.#statements = new ListStatements(db);
    this.#byId = new PageById(this.#statements);
  }

  /** Returns the executions of the page and the next one. `pause` waits if this turn has lasted long enough. */
  async find(filter: ListFilter, pause: () => Promise<void>): Promise<number[]> {
    const { idPrefix = "" } = filter;
    if (idPrefix === "") return [...(await this.#findByTime(filter, pause, Infinity))!]; // it looks at all of them
    const byId = { ...filter, idPrefix };
    if (this.#byId.hasFew(idPrefix)) return this.#byId.find(byId, pause);
    return [...((await this.#findByTime(filter, pause, maxScanned)) ?? (await this.#byId.find(byId, pause)))];
  }

  /** Returns undefined if the page is not whole after this number of rows. */
  async #findByTime(
    filter: ListFilter,
    pause: () => Promise<void>,
    max: number,
  ): Promise<ReadonlySet<number> | undefined> {
    const sources = this.#toSources(filter);
    const first = Math.ceil((filter.limit + 1) / Math.max(1, sources.length)) + 8;
    const lists = sources.map((source) => ({ source, rows: [] as PageRow[], isLast: false, chunk: first }));
    const found = new Set<number>(); // a status may change between two chunks
    let scanned = 0;
    while (found.size <= filter.limit) {
      for (const list of lists) {
        while (list.rows.length === 0 && !list.isLast) {
          await pause();
          if (scanned > max) return undefined;
          scanned += list.chunk;
          const { rows, next } = this.#read(list.source, list.chunk);
          list.isLast = next === undefined;
          list.chunk = Math.min(maxRows, list.chunk * 4);
          list.source = { ...list.source, before: next ?? list.source.before };
          list.rows = rows.filter((row) => isMatch(row, filter)).toReversed();
        }
      }
      const newest = lists.reduce((best, list) => (isBefore(best.rows.at(-1), list.rows.at(-1)) ? list : best), {
        rows: [] as PageRow[],
      });
      const row = newest.rows.pop();
      if (!row) break;
      found.add(row.number);
    }
    return found;
  }

  #toSources(filter: ListFilter): Source[] {
    const { workflowId, since = 0 } = filter;
    const userId = filter.userId ?? undefined; // executions without a user have no index
    const place = toFirst(filter);
    const statuses = toStatuses(filter);
    const columns = toColumns(filter);
    const values = { since, ...(userId !== undefined && { user: userId }) };
    const user = userId === undefined ? "" : "and user = :user";
    const workflows = workflowId === undefined ? undefined : [workflowId].filter((id) => !isTurn({ workflowId: id }));
    return (statuses ?? [undefined]).flatMap((status): Source[] => {
      if (status === "running") {
        const [workflow] = workflows ?? [];
        const ofWorkflow = workflow === undefined ? "" : "and workflow = :workflow";
        const sql = page(
          columns,
          "indexed by executions_running",
          `status = 'running' and ${isNoTurn} ${ofWorkflow} ${user}`,
        );
        return [{ sql, values: { ...values, ...(workflow !== undefined && { workflow }) }, before: place }];
      }
      // The status is a part of the text: SQLite uses a partial index only if the text of the query implies its condition.
      const ofStatus = status === undefined ? "" : `and status = '${status}'`;
      const where = `workflow = :workflow ${user} ${ofStatus}`;
      const condition = toTextCondition(filter);
      const sql = condition === undefined ? page(columns, "", where) : part(columns, where, condition);
      const end = condition === undefined ? undefined : toEnd(where);
      return (workflows ?? this.#workflows()).map((workflow) => ({
        sql,
        end,
        values: { ...values, workflow },
        before: place,
      }));
    });
  }

  /** The workflows that have executions. One look into the index for each. */
  #workflows(): string[] {
    return (this.#statements.prepare(allWorkflows).all() as { workflow: string }[])
      .map(({ workflow }) => workflow)
      .filter((workflow) => !isTurn({ workflowId: workflow }));
  }

  /** Reads the rows of a chunk, and the place at which it ends. That is undefined for the last one. */
  #read({ sql, end: endSql, values, before }: Source, limit: number): { rows: PageRow[]; next: RowPlace | undefined } {
    const { started, id } = before;
    const named = { ...values, started, id };
    if (endSql === undefined) {
      const rows = this.#statements.prepare(sql).all({ ...named, limit }) as unknown as PageRow[]; // the columns of `page`
      return { rows, next: rows.length < limit ? undefined : rows.at(-1) };
    }
    const end = this.#statements.prepare(endSql).get({ ...named, offset: limit - 1 }) as RowPlace | undefined;
    const to = { endStarted: end?.started ?? 0, endId: end?.id ?? "" };
    const rows = this.#statements.prepare(sql).all({ ...named, ...to }) as unknown as PageRow[]; // the columns of `part`
    return { rows, next: end };
  }
}

/** A list that has an index, from a place on. */
interface Source {
  readonly sql: string;
  /** Finds the end of a chunk in the index alone. Rows that the condition of `sql` refuses are not read. */
  readonly end?: string | undefined;
  readonly values: Named;
  readonly before: RowPlace;
}

const order = "order by started desc, id desc";
const page = (columns: string, index: string, where: string): string =>
  `select ${columns} from executions ${index} where ${where} and (started, id) < (:started, :id) and started >= :since
    ${order} limit :limit`;
const toEnd = (where: string): string =>
  `select started, id from executions where ${where} and (started, id) < (:started, :id) and started >= :since
    ${order} limit 1 offset :offset`;
/** The rows up to the end of a chunk that meet a condition. */
const part = (columns: string, where: string, condition: string): string =>
  `select ${columns} from executions where ${where} and (started, id) < (:started, :id)
    and started >= max(:since, :endStarted) and (+started, id) >= (:endStarted, :endId) and ${condition} ${order}`;

const allWorkflows = `with recursive found(workflow) as (
    select min(workflow) from executions
    union all select (select min(workflow) from executions where workflow > found.workflow) from found where workflow is not null
  ) select workflow from found where workflow is not null`;
