import { useRef } from "preact/hooks";
import { listExecutions, type ListedExecution } from "../../executions.ts";
import type { ExecutionChange } from "../../server/live.ts";
import { useChanges, useLoaded, type Loaded } from "../../server/load.ts";
import { toListQuery, type RunFilter } from "./filter.ts";

export const pageSize = 50;

/** A page of the list. */
export interface RunList {
  /** The filter and the cursor that it belongs to. */
  readonly key: string;
  readonly rows: readonly ListedExecution[];
  readonly nextCursor: string | null;
  /** The newest run when the page was opened. */
  readonly top: string | undefined;
  /** The number of runs that have been started since, and are not shown: at most a page. */
  readonly newCount: number;
}
interface ListRequest {
  readonly filter: RunFilter;
  readonly cursor: string | undefined;
  /** True if the rows must stay as they are, because the user has selected some. */
  readonly isHeld: boolean;
}

/** Reads a page of the list, and again at each change. New runs appear on the first page, unless its rows are held. */
export function useRunList(asked: ListRequest): Loaded<RunList> {
  const key = JSON.stringify([asked.filter, asked.cursor]);
  const before = useRef<RunList | undefined>(undefined);
  const changes = useRef(new Map<string, ExecutionChange>());
  const loaded = useLoaded(
    async (signal) => {
      const list = await readList(asked, key, before.current, changes.current, signal);
      if (!asked.isHeld) changes.current.clear();
      before.current = list;
      return list;
    },
    [key, asked.isHeld],
  );
  useChanges(loaded.reload, 500, (change) => {
    if (before.current?.rows.some(({ executionId }) => executionId === change.executionId)) {
      changes.current.set(change.executionId, change);
    }
    return true;
  });
  const isCurrent = loaded.value?.key === key;
  return isCurrent ? loaded : { ...loaded, value: undefined };
}

async function readList(
  { filter, cursor, isHeld }: ListRequest,
  key: string,
  before: RunList | undefined,
  changes: ReadonlyMap<string, ExecutionChange>,
  signal: AbortSignal,
): Promise<RunList> {
  const query = toListQuery(filter);
  const shown = before?.key === key ? before : undefined;
  const first = cursor === undefined && isHeld ? shown?.rows[0] : undefined;
  // Rows that are held are read from the first of them on: newer runs do not displace them.
  const held = first && { until: first.startAt, limit: 200 };
  const page = await listExecutions({ ...query, cursor, limit: pageSize, ...held }, signal);
  if (cursor === undefined && !held) {
    return { key, rows: page.items, nextCursor: page.nextCursor, top: page.items[0]?.executionId, newCount: 0 };
  }
  const newest = (await listExecutions({ ...query, limit: pageSize }, signal)).items;
  const top = shown ? shown.top : newest[0]?.executionId;
  const place = newest.findIndex(({ executionId }) => executionId === top);
  const newCount = place < 0 ? newest.length : place;
  if (!held || !shown) return { key, rows: page.items, nextCursor: page.nextCursor, top, newCount };
  const found = new Map(page.items.map((row) => [row.executionId, row]));
  const rows = shown.rows.map((row) => found.get(row.executionId) ?? withChange(row, changes.get(row.executionId)));
  return { ...shown, rows, newCount };
}

/** The row of a run that the filter no longer finds. */
function withChange(row: ListedExecution, change: ExecutionChange | undefined): ListedExecution {
  if (!change || change.status === row.status) return row;
  const { suspension: _, ...rest } = row;
  return { ...rest, status: change.status };
}
