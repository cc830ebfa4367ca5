import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import type { ListFilter } from "../../../engine/backend.ts";
import { isNoTurn, isTurn } from "../../../engine/turn-execution.ts";
import { executionStatuses, type ExecutionStatus } from "../../../engine/execution.ts";

/**
 * Finds the executions of a page, newest first.
 *
 * The indexes are by workflow, so that a start touches few pages of the file. A list of all workflows merges those of each, and a
 * list of several statuses those of each status. A filter without an index is checked row by row. Rows are read in chunks, and
 * other work of the process runs between them.
 */
export class PageNumbers {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Returns the executions of the page and the first of the next one. `pause` waits if this turn has lasted long enough. */
  async find(filter: ListFilter, pause: () => Promise<void>): Promise<number[]> {
    const sources = this.#toSources(filter);
    const first = Math.ceil((filter.limit + 1) / Math.max(1, sources.length)) + 8;
    const lists = sources.map((source) => ({ source, rows: [] as Row[], isLast: false, chunk: first }));
    const found = new Set<number>(); // a status may change between two chunks
    while (found.size <= filter.limit) {
      for (const list of lists) {
        while (list.rows.length === 0 && !list.isLast) {
          await pause();
          const rows = this.#read(list.source, list.chunk);
          list.isLast = rows.length < list.chunk;
          list.chunk = Math.min(mostRows, list.chunk * 4);
          list.source = { ...list.source, before: rows.at(-1) ?? list.source.before };
          list.rows = rows.filter((row) => isMatch(row, filter)).toReversed();
        }
      }
      const newest = lists.reduce((best, list) => (isBefore(best.rows.at(-1), list.rows.at(-1)) ? list : best), {
        rows: [] as Row[],
      });
      const row = newest.rows.pop();
      if (!row) break;
      found.add(row.number);
    }
    return [...found];
  }

  #toSources(filter: ListFilter): Source[] {
    const { workflowId, userId, idPrefix = "", since = 0, until = Number.MAX_SAFE_INTEGER - 1, before } = filter;
    const place = !before || before.startAt > until ? { started: until + 1, id: "" } : toPlace(before);
    const statuses = toStatuses(filter);
    const columns = toColumns(filter);
    const values = { since, ...(userId !== undefined && { user: userId }) };
    const user = userId === undefined ? "" : "and user = :user";
    if (idPrefix !== "" && this.#hasFew(idPrefix)) {
      // Without an index for the other columns, the one of the ids is left.
      const where = [
        "id >= :prefix and id < :end",
        isNoTurn,
        ...(workflowId === undefined ? [] : ["+workflow = :workflow"]),
        ...(userId === undefined ? [] : ["+user = :user"]),
        ...(statuses ? [`+status in (${statuses.map((status) => `'${status}'`).join(", ")})`] : []),
      ].join(" and ");
      const named = { ...values, ...toRange(idPrefix), ...(workflowId !== undefined && { workflow: workflowId }) };
      return [{ sql: page(columns, "", where, "+started"), values: named, before: place }];
    }
    const workflows = workflowId === undefined ? undefined : [workflowId].filter((id) => !isTurn({ workflowId: id }));
    return (statuses ?? [undefined]).flatMap((status) => {
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
      const sql = page(columns, "", `workflow = :workflow ${user} ${ofStatus}`);
      return (workflows ?? this.#workflows()).map((workflow) => ({
        sql,
        values: { ...values, workflow },
        before: place,
      }));
    });
  }

  /** The workflows that have executions. One look into the index for each. */
  #workflows(): string[] {
    return (this.#prepare(allWorkflows).all() as { workflow: string }[])
      .map(({ workflow }) => workflow)
      .filter((workflow) => !isTurn({ workflowId: workflow }));
  }

  /** Whether so few ids begin with this text that all of them can be read at once. */
  #hasFew(prefix: string): boolean {
    const sql = `select count(*) as count from (select 1 from executions where id >= :prefix and id < :end limit ${mostRows})`;
    return (this.#prepare(sql).get(toRange(prefix)) as { count: number }).count < mostRows;
  }

  #read({ sql, values, before: { started, id } }: Source, limit: number): Row[] {
    return this.#prepare(sql).all({ ...values, started, id, limit }) as unknown as Row[]; // the columns of `page`
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql) ?? this.#db.prepare(sql);
    this.#statements.set(sql, known);
    return known;
  }
}

/** The most rows that are read at once. */
const mostRows = 1_000;

/** A list that has an index, from a place on. */
interface Source {
  readonly sql: string;
  readonly values: Record<string, SQLInputValue>;
  readonly before: Place;
}
interface Place {
  readonly started: number;
  readonly id: string;
}
interface Row extends Place {
  readonly number: number;
  /** 1 if the execution was cancelled. */
  readonly cancelled?: number;
  readonly kind?: "system" | null;
  readonly kinds?: string | null;
  readonly branches?: number | null;
}

const toPlace = ({ startAt, id }: { startAt: number; id: string }): Place => ({ started: startAt, id });
const toRange = (prefix: string): { prefix: string; end: string } => ({ prefix, end: `${prefix}\u{10FFFF}` });

/** Whether a row comes behind another one, newest first. */
function isBefore(row: Place | undefined, other: Place | undefined): boolean {
  if (!row || !other) return other !== undefined;
  return row.started < other.started || (row.started === other.started && row.id < other.id);
}

/** The statuses that can fit; undefined for any. */
function toStatuses({ status, kind, isCancelled }: ListFilter): ExecutionStatus[] | undefined {
  if (!status && !kind && !isCancelled) return undefined;
  return [...new Set(status ?? executionStatuses)].filter(
    (one) => (!kind || one === "suspended") && (!isCancelled || one === "error"),
  );
}

function toColumns({ kind, isCancelled }: ListFilter): string {
  const columns = ["number", "started", "id"];
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

/** Checks the parts of a filter that have no index. */
function isMatch(row: Row, { idPrefix = "", isCancelled, kind }: ListFilter): boolean {
  if (!row.id.startsWith(idPrefix)) return false;
  if (isCancelled !== undefined && (row.cancelled === 1) !== isCancelled) return false;
  if (!kind) return true;
  const { kind: own, kinds, branches } = row;
  const found = own ? [own] : branches === 0 ? ["request"] : kinds ? JSON.parse(kinds) : ["person"];
  return kind.some((one) => found.includes(one));
}

const page = (columns: string, index: string, where: string, started = "started"): string =>
  `select ${columns} from executions ${index} where ${where} and (${started}, id) < (:started, :id) and ${started} >= :since
    order by started desc, id desc limit :limit`;

const allWorkflows = `with recursive found(workflow) as (
    select min(workflow) from executions
    union all select (select min(workflow) from executions where workflow > found.workflow) from found where workflow is not null
  ) select workflow from found where workflow is not null`;
