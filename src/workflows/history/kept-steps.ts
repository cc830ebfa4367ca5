import type { ExecutionState, StepPlace } from "../../engine/execution.ts";
import type { StepRecord } from "../../engine/steps/step-record.ts";
import { kindOf } from "../../engine/suspension.ts";

/** Max kept steps of all executions, and the time after which unused ones are dropped. */
export const maxKeptSteps = 25_000;
const idleMs = 10_000;
const maxLists = 100;

/** Consecutive steps of a list, ordered by start. */
interface StepList {
  readonly records: readonly StepRecord[];
  /** The order after which these steps begin. */
  readonly after: number;
  /** True if no step of the list follows. */
  readonly isLast: boolean;
  /** The steps of the registered workflow when they were read. Another version may redact others. */
  readonly steps: readonly StepPlace[] | undefined;
}

/**
 * The steps of executions that do not change, while a client reads them page by page: each page would read the whole journal
 * again. An execution that continues has another epoch.
 */
export class KeptSteps {
  readonly #kept = new Map<string, StepList>();
  #timer: NodeJS.Timeout | undefined;

  /** Returns the key of a step list; undefined for an execution whose journal may grow. */
  toKey(state: ExecutionState, filter: readonly (string | undefined)[]): string | undefined {
    const { execution, status, epoch, last } = state;
    const kind = kindOf(last);
    // Steps that are in flight when a request suspends their execution are still recorded.
    if (status === "running" || kind === "request" || kind === "system") return undefined;
    return JSON.stringify([execution.id, execution.startAt, epoch, ...filter]);
  }

  /** Returns the records after this one, as many as a page needs. Undefined if they are not kept. */
  find(key: string, steps: StepList["steps"], after: number, limit: number): readonly StepRecord[] | undefined {
    const kept = this.#kept.get(key);
    if (!kept || kept.steps !== steps || after < kept.after) return undefined;
    const records = takeAfter(kept.records, after, limit);
    if (records.length <= limit && !kept.isLast) return undefined;
    this.#wait();
    return records;
  }

  add(key: string, list: StepList): void {
    this.#kept.delete(key);
    this.#kept.set(key, list);
    let count = 0;
    for (const { records } of this.#kept.values()) count += records.length;
    for (const [oldest, { records }] of this.#kept) {
      if (count <= maxKeptSteps && this.#kept.size <= maxLists) break;
      this.#kept.delete(oldest);
      count -= records.length;
    }
    this.#wait();
  }

  #wait(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#kept.clear(), idleMs).unref();
  }
}

/** Returns the records that began after this one, and one more than the limit if there are more. */
function takeAfter(records: readonly StepRecord[], after: number, limit: number): readonly StepRecord[] {
  let from = 0;
  for (let to = records.length; from < to;) {
    const middle = (from + to) >> 1;
    if (records[middle]!.order <= after) from = middle + 1;
    else to = middle;
  }
  return records.slice(from, from + limit + 1);
}
