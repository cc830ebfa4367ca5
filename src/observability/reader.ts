import type { Identity } from "../core/caller.ts";
import { toMatcher, type LogFilter } from "./filter.ts";
import type { LogEntry, LogRecord } from "./record.ts";

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
