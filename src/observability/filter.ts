import * as v from "valibot";
import { logLevels, type LogLevel } from "../core/log.ts";
import { Time, wholeNumber } from "../http/input.ts";
import type { Identity } from "../core/caller.ts";
import type { LogEntry, LogRecord } from "./record.ts";

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

function toMatcher(filter: LogFilter): (entry: LogEntry) => boolean {
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

/** The identity and the filter of a log reader. They decide which records it may read. */
export interface ReaderOptions {
  readonly identity: Identity;
  readonly filter: LogFilter;
}

/** Returns a filter for a reader's visible records. With `ownership`, foreign execution ids match nothing. */
export function toFinder({ identity, filter }: ReaderOptions): (entry: LogEntry) => boolean {
  const matches = toMatcher(filter);
  if (!identity.ownership || filter.executionId === undefined) return matches;
  return (entry) => isOwn(identity, entry) && matches(entry);
}

const isOwn = ({ caller }: Identity, { ids }: LogEntry): boolean =>
  caller?.userId !== undefined && caller.userId === ids.userId;

/**
 * Returns the JSON of a record for a reader. Logs are public, and `resume` requires only the execution id. So with a
 * provider, an anonymous reader sees full records only of an execution whose id it already knows.
 */
export function toReader({ identity, filter }: ReaderOptions): (entry: LogEntry) => string {
  const { checked, ownership, caller } = identity;
  if (!checked || (caller && !ownership)) return ({ text }) => text;
  return (entry) => {
    const { executionId } = entry.ids;
    const isKnown = ownership
      ? isOwn(identity, entry)
      : executionId !== undefined && executionId === filter.executionId;
    return isKnown ? entry.text : maskedText(entry);
  };
}

const masked = new WeakMap<LogEntry, string>();

/** Returns the masked record, which is created once for all readers. */
function maskedText(entry: LogEntry): string {
  const known = masked.get(entry);
  if (known !== undefined) return known;
  const {
    executionId: _,
    userId: _user,
    conversationId: _conversation,
    data: _data,
    error: _error,
    ...rest
  } = JSON.parse(entry.text) as LogRecord;
  const text = JSON.stringify(rest);
  masked.set(entry, text);
  return text;
}
