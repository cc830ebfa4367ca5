// The filters of docs/observability.md, "Read the log over HTTP", by hand: nothing of `src/observability` is used here.

export const levels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
const filterNames = ["level", "agentId", "workflowId", "executionId", "since", "until", "limit"] as const;

export interface Written {
  readonly seq: number;
  /** In milliseconds since 1970. */
  readonly at: number;
  readonly level: (typeof levels)[number];
  readonly message: string;
  readonly agentId?: string | undefined;
  readonly workflowId?: string | undefined;
  readonly executionId?: string | undefined;
}
/** As it stands in a query. */
export type Query = { [K in (typeof filterNames)[number]]?: string };

/** All that match and are still kept, before the limit. */
export function matching<T extends Written>(records: readonly T[], query: Query): T[] {
  const since = query.since === undefined ? undefined : toMilliseconds(query.since);
  const until = query.until === undefined ? undefined : toMilliseconds(query.until);
  return records.filter((record) => {
    if (query.level !== undefined && rank(record.level) < rank(query.level)) return false;
    if (since !== undefined && record.at < since) return false;
    if (until !== undefined && record.at > until) return false;
    for (const name of ["agentId", "workflowId", "executionId"] as const)
      if (query[name] !== undefined && record[name] !== query[name]) return false;
    return true;
  });
}

/** The newest that match, oldest first. */
export function newest<T extends Written>(records: readonly T[], query: Query): T[] {
  return matching(records, query).slice(-Number(query.limit ?? 100));
}

const rank = (level: string): number => levels.findIndex((one) => one === level);
const toMilliseconds = (text: string): number => (/^\d+$/.test(text) ? Number(text) : new Date(text).getTime());

export const toSearch = (query: Query): string => new URLSearchParams(query as Record<string, string>).toString();

/** Nothing, each filter alone, each pair of them, and all together: with every value that is offered. */
export function combinations(values: Record<(typeof filterNames)[number], readonly string[]>): Query[] {
  const found: Query[] = [{}];
  for (const [index, first] of filterNames.entries()) {
    for (const one of values[first]) {
      found.push({ [first]: one });
      for (const second of filterNames.slice(index + 1))
        for (const other of values[second]) found.push({ [first]: one, [second]: other });
    }
  }
  const most = Math.max(...filterNames.map((name) => values[name].length));
  for (let n = 0; n < most; n++)
    found.push(Object.fromEntries(filterNames.map((name) => [name, values[name][n % values[name].length]!])));
  return found;
}

export interface Plan {
  readonly level: (typeof levels)[number];
  /** How long after the one before. */
  readonly later: number;
  readonly pad: number;
  readonly agentId: string | undefined;
  readonly workflowId: string | undefined;
  readonly executionId: string | undefined;
}
export const began: number = Date.parse("2026-03-01T00:00:00.000Z");
