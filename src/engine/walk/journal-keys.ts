/**
 * The grammar of journal keys. A key is unique within its execution, and the same on every replay.
 *
 *     entry key         = stable key "#" count       charge#1   sub/verify?@2#1
 *     stable key        = path [suffix] ["@" generation]
 *     path              = { step id "/" } step id    the steps of a sub-workflow are under the id of its step
 *                       | path "/" number            one iteration of a loop, and the steps inside it: each/3/pay
 *     suffix            = "?" [number] | "<" | ">"   a condition | a check of what comes in | of what goes out, or a map
 *     wake key          = "~" stable key "#" count   ~nap#1
 *     command key       = "!" epoch                  !3
 *     idempotency key   = execution id "/" stable key
 *
 * The glossary of counters:
 * - attempt     counts the tries of one entry that its `retry` allows; a resume begins again at 1. Crashes do not count.
 * - count       numbers the planned attempts of one stable key: retries, and runs after a resume. An aborted one has no row.
 * - generation  counts how often a resume went back to an earlier step. What runs from there on has new keys.
 * - epoch       numbers the transitions of an execution, from any side. 0 before the first.
 * - seq         numbers the stored events of an execution, from 1.
 * - row         numbers the rows of a journal, in the order in which they were written; in a data file, of all journals.
 * - number      the execution in a data file, in place of its id.
 */

export type EntrySuffix = "" | "?" | "<" | ">" | `?${number}`;

export function toStableKey(path: string, suffix: EntrySuffix, generation: number): string {
  return generation === 0 ? path + suffix : `${path}${suffix}@${generation}`;
}

export const toEntryKey = (stableKey: string, count: number): string => `${stableKey}#${count}`;

/** Key of the wake-up row for an entry's wait. Waits have numbers apart from the attempt numbers. */
export const toWakeKey = (stableKey: string, count: number): string => `~${stableKey}#${count}`;

/** The parts of an entry key; undefined for the key of a command or a wake. */
export function fromEntryKey(key: string): EntryKey | undefined {
  const [, path = "", suffix = "", generation = "0"] = entryKey.exec(key) ?? [];
  if (!entryKey.test(key)) return undefined;
  return { path, suffix: suffix as EntrySuffix, generation: Number(generation) };
}
export interface EntryKey {
  readonly path: string;
  readonly suffix: EntrySuffix;
  readonly generation: number;
}
/** The parts of a wake key; undefined for other keys. */
export const fromWakeKey = (key: string): EntryKey | undefined =>
  key.startsWith("~") ? fromEntryKey(key.slice(1)) : undefined;

/** The key without its count. */
export const stableKeyOf = (key: string): string => key.slice(0, key.lastIndexOf("#"));

const entryKey = /^([^!~?<>@#]*)(\?\d*|[<>]?)(?:@(\d+))?#\d+$/;

export const toCommandKey = (epoch: number): string => `!${epoch}`;

export const toIdempotencyKey = (executionId: string, stableKey: string): string => `${executionId}/${stableKey}`;

/** The part of a path that the steps beside it share: `sub/` of `sub/verify`. */
export const prefixOf = (path: string): string => path.slice(0, path.lastIndexOf("/") + 1);
