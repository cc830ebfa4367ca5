import * as v from "valibot";
import { logLevels, type LogLevel } from "../core/log.ts";
import { Time, wholeNumber } from "../http/input.ts";
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

/** The query parameters of `/api/logs` and `/ws/logs`. */
export const LogQuery: v.GenericSchema<LogQueryInput, LogFilter> = v.object({
  level: v.optional(v.picklist(logLevels, `expected one of ${logLevels.join(", ")}`)),
  agentId: v.optional(v.string()),
  workflowId: v.optional(v.string()),
  executionId: v.optional(v.string()),
  since: v.optional(Time),
  until: v.optional(Time),
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
