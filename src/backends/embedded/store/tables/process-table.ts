import { setImmediate as nextTurn } from "node:timers/promises";
import { pageRows, rows } from "../rows.ts";
import type { Statements } from "../sql.ts";

/** A running execution without a drive. */
export interface InterruptedExecution {
  readonly number: number;
  readonly id: string;
  readonly workflowId: string;
  /** The crashes in a row, without a new row between them. */
  readonly crashes: number;
  /** The bytes of its input and all journal values. */
  readonly bytes: number;
  readonly concurrencyKey: string | undefined;
  /** True if it only waits for its turn: none of its code has run since its start or its last resume. */
  readonly isWaiting: boolean;
}
interface LeftRow extends Omit<InterruptedExecution, "concurrencyKey" | "isWaiting"> {
  readonly concurrencyKey: string | null;
  readonly isWaiting: 0 | 1;
}

/** What the next process must know if this one is killed: who was running, and for whom a crash does not count. */
export class ProcessTable {
  readonly #statements: Statements;
  /** The number of the last execution when the file was opened. */
  readonly #lastBefore: number;

  constructor(statements: Statements, lastBefore: number) {
    this.#statements = statements;
    this.#lastBefore = lastBefore;
  }

  /**
   * Counts the crash of the last process for the executions that it left running, unless it was closed. Marks a new start.
   * Runs inside a transaction.
   */
  start(): void {
    const last = this.#statements.lastProcess.get() as { clean: number } | undefined;
    if (last && !last.clean) {
      const suspect = this.#statements.lastSuspect.get() as { last: number | null };
      this.#statements.countCrashes.run(suspect.last);
    }
    this.#statements.endIsolation.run();
    this.#statements.startProcess.run();
  }
  /** Marks that this process was closed, not killed. */
  end(): void {
    this.#statements.endProcess.run();
  }

  /** The executions that the last process left running, in the order of their start. Other work runs between two pages. */
  async *leftRunning(): AsyncGenerator<InterruptedExecution[]> {
    for (let after = 0; ;) {
      const page = rows<LeftRow>(this.#statements.leftRunning, after, this.#lastBefore, pageRows);
      yield page.map(({ concurrencyKey: key, isWaiting, ...row }) => {
        return { ...row, concurrencyKey: key === null ? undefined : JSON.parse(key), isWaiting: isWaiting === 1 };
      });
      if (page.length < pageRows) return;
      after = page.at(-1)!.number;
      await nextTurn();
    }
  }
  /** Marks the nth suspect of this process before it runs; see `Recovery`. */
  isolate(number: number, n: number): void {
    this.#statements.isolate.run(n, number);
  }
  /** Marks an execution that waits for its turn. The next transition removes the mark as well. */
  startWaiting(number: number): void {
    this.#statements.startWaiting.run(number);
  }
  endWaiting(number: number): void {
    this.#statements.endWaiting.run(number);
  }

  /** Marks an execution whose code waits for other executions. The next transition removes the mark as well. */
  startAbsence(number: number): void {
    this.#statements.startAbsence.run(number);
  }
  endAbsence(number: number): void {
    this.#statements.endAbsence.run(number);
  }
}
