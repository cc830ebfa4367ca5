import type { ExecutionState, StepPlace } from "../engine/execution.ts";
import type { StepRecord } from "../engine/steps/step-record.ts";

/** The most steps that are kept, of all executions, and the time after which they are dropped if nothing asks for them. */
export const mostKeptSteps = 25_000;
const idleMs = 10_000;
const mostLists = 100;

interface KeptSteps {
  readonly records: readonly StepRecord[];
  /** The steps of the registered workflow when they were read. Another version may redact others. */
  readonly steps: readonly StepPlace[] | undefined;
}

/**
 * The steps of executions that have ended, while a client reads them page by page: each page would read the whole journal
 * again. An execution that is retried has another epoch.
 */
export class EndedSteps {
  readonly #kept = new Map<string, KeptSteps>();
  #timer: NodeJS.Timeout | undefined;

  /** Returns the key of a list of steps; undefined for an execution that has not ended. */
  toKey({ execution, status, epoch }: ExecutionState, filter: readonly (string | undefined)[]): string | undefined {
    if (status !== "completed" && status !== "error") return undefined;
    return JSON.stringify([execution.id, execution.startAt, epoch, ...filter]);
  }

  find(key: string, steps: KeptSteps["steps"]): readonly StepRecord[] | undefined {
    const kept = this.#kept.get(key);
    if (kept?.steps !== steps) return undefined;
    this.#wait();
    return kept?.records;
  }

  add(key: string, kept: KeptSteps): void {
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    let count = 0;
    for (const { records } of this.#kept.values()) count += records.length;
    for (const [oldest, { records }] of this.#kept) {
      if (count <= mostKeptSteps && this.#kept.size <= mostLists) break;
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
