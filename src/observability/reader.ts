import type { Identity } from "../core/caller.ts";
import { toMatcher, type LogFilter } from "./filter.ts";
import type { LogEntry, LogRecord } from "./record.ts";

/** Who reads, as far as it matters for what may be read. */
export interface ReaderOptions {
  readonly identity: Identity;
  readonly filter: LogFilter;
}

/** What somebody may find. With `ownership` the id of another's execution is as good as an unknown one. */
export function toFinder({ identity, filter }: ReaderOptions): (entry: LogEntry) => boolean {
  const matches = toMatcher(filter);
  if (!identity.ownership || filter.executionId === undefined) return matches;
  return (entry) => isOwn(identity, entry) && matches(entry);
}

const isOwn = ({ caller }: Identity, { ids }: LogEntry): boolean =>
  caller?.userId !== undefined && caller.userId === ids.userId;

/**
 * What somebody may read of a record, as JSON. Logs are public, and an execution's id is all that `resume` asks for: with a
 * provider, an anonymous reader must know it already.
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

/** Made once, when the first such reader comes. */
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
