import type { JsonText } from "../../core/json.ts";
import type { UsageRow } from "./usage.ts";

/**
 * The results that one attempt records while it runs, by name. A crash repeats the attempt under the same journal key, and
 * the repetition finds them. They are removed with the commit of the attempt's own result, or with the execution: an attempt that
 * has lost a race has no result.
 */
export interface AttemptRecords {
  /** The results that were recorded before a crash. */
  readonly found: ReadonlyMap<string, JsonText>;
  /**
   * Records a result. Durable when it resolves. Rejects if the attempt ended, or has been repeated elsewhere. The usage of a
   * model call is counted with its record.
   */
  write(name: string, text: JsonText, usage?: UsageRow): Promise<void>;
}

/** Opens the records of an attempt, by the journal key of its result. */
export type OpenRecords = (key: string) => Promise<AttemptRecords>;

/** Returns the records whose names begin with a scope, without it. */
export function scopeRecords({ found, write }: AttemptRecords, scope: string): AttemptRecords {
  const own = [...found].filter(([name]) => name.startsWith(scope));
  return {
    found: new Map(own.map(([name, text]) => [name.slice(scope.length), text])),
    write: (name, text, usage) => write(scope + name, text, usage),
  };
}
