import type { CodeTable } from "../definition/code-table.ts";
import type { Execution } from "../execution.ts";

/** The place of a walk in time and in its workflow, as its branches read it. */
export class WalkState {
  readonly codes: CodeTable;
  readonly executionId: string;
  /** Steps before this one were copied from the original of a fork. */
  readonly #firstIndex: number;
  /** The start of a fork. The results that it copies are older. */
  readonly #forkedAt: number;
  /** The time of the last input. */
  clock: number;
  /** The number of resumes that went back to an earlier step. */
  generation = 0;
  /** The index of the top-level step that the walk has reached. */
  stepIndex = 0;
  /** The number of entries of each stable key. */
  readonly #counts = new Map<string, number>();

  constructor(codes: CodeTable, { id, startAt, fork }: Execution) {
    this.codes = codes;
    this.executionId = id;
    this.#firstIndex = fork?.stepIndex ?? 0;
    this.#forkedAt = fork ? startAt : 0;
    this.clock = startAt;
  }

  /** The time of a result or a wake; in a fork at least that of its start. */
  reach(at: number): void {
    this.clock = Math.max(at, this.#forkedAt);
  }

  /** The walk is at a step that was copied: each of its entries has one result, the last one of the original. */
  get isCopied(): boolean {
    return this.generation === 0 && this.stepIndex < this.#firstIndex;
  }

  /** Returns the number of the next entry of a stable key. One that is aborted has no journal row. */
  nextCount(stableKey: string): number {
    const count = (this.#counts.get(stableKey) ?? 0) + 1;
    this.#counts.set(stableKey, count);
    return count;
  }
}
