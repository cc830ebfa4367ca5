import * as v from "valibot";
import { logLevels, type LogLevel } from "../core/log.ts";
import { wholeNumber } from "../http/whole-number.ts";
import type { LogEntry } from "./record.ts";

export interface LogFilter {
  /** The minimum level. */
  readonly level?: LogLevel | undefined;
  readonly agentId?: string | undefined;
  readonly workflowId?: string | undefined;
  readonly executionId?: string | undefined;
  /** The earliest time in milliseconds since 1970, inclusive. */
  readonly since?: number | undefined;
  /** The latest time in milliseconds since 1970, inclusive. */
  readonly until?: number | undefined;
  /** The number of newest records to return. @default 100 */
  readonly limit?: number | undefined;
}
type LogQueryInput = { readonly [K in keyof LogFilter]?: string | undefined };

const timeRule = "expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970";
const isoTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;
function toTime(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  if (!isoTime.test(text)) return NaN;
  // `Date` parses February 30 as a day in March.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  return Number.isNaN(day.valueOf()) || day.toISOString().slice(0, 10) !== text.slice(0, 10) ? NaN : Date.parse(text);
}
const time = v.optional(
  v.pipe(
    v.string(),
    v.check((text) => !Number.isNaN(toTime(text)), timeRule),
    v.transform(toTime),
  ),
);

/** The query parameters of `/api/logs` and `/ws/logs`. */
export const LogQuery: v.GenericSchema<LogQueryInput, LogFilter> = v.object({
  level: v.optional(v.picklist(logLevels, `expected one of ${logLevels.join(", ")}`)),
  agentId: v.optional(v.string()),
  workflowId: v.optional(v.string()),
  executionId: v.optional(v.string()),
  since: time,
  until: time,
  limit: v.optional(wholeNumber(1, 1_000, "expected 1 to 1000")),
});
export const defaultLimit = 100;

export function toMatcher(filter: LogFilter): (entry: LogEntry) => boolean {
  const { level, agentId, workflowId, executionId, since = -Infinity, until = Infinity } = filter;
  const wanted = new Set<LogLevel>(level ? logLevels.slice(logLevels.indexOf(level)) : logLevels);
  return ({ level: own, at, ids }) =>
    wanted.has(own) &&
    at >= since &&
    at <= until &&
    (agentId === undefined || ids.agentId === agentId) &&
    (workflowId === undefined || ids.workflowId === workflowId) &&
    (executionId === undefined || ids.executionId === executionId);
}
