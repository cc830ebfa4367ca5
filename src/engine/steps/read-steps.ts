import { setImmediate as nextTurn } from "node:timers/promises";
import type { HistoryPages } from "../contract/history.ts";
import { StepHistory, type DescribedExecution, type HistoryOptions, type StepRecord } from "./step-history.ts";

/**
 * Returns the steps of an execution that have begun and are asked for, in the order of begin. Other work of the process runs
 * after every 250 rows.
 */
export async function readSteps(
  engine: { history(id: string): HistoryPages },
  execution: DescribedExecution,
  options: HistoryOptions,
): Promise<readonly StepRecord[]> {
  const steps = new StepHistory(execution, options);
  for await (const page of engine.history(execution.id)) {
    for (const [index, row] of page.entries()) {
      if (index % turnRows === turnRows - 1) await nextTurn();
      steps.add(row);
    }
  }
  return steps.records();
}

/** The rows that are read in one turn of the event loop. */
const turnRows = 250;
