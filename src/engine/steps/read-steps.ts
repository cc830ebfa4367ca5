import { describeSteps, type Execution, type Position } from "../execution.ts";
import type { Program } from "../contract/program.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { HistoryPages } from "../contract/engine.ts";
import { StepHistory, type DescribedExecution, type HistoryOptions, type StepRecord } from "./step-history.ts";

/**
 * Returns the steps of an execution that began and are asked for, in the order of begin. Other work of the process runs
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

/** The place of an execution without a walk, from its rows. `program` describes the steps of one that a former version stored. */
export async function readPosition(
  execution: Execution,
  rows: HistoryPages,
  program: Program | undefined,
): Promise<Position | undefined> {
  const traitsByPath = new Map(program?.steps.map((step) => [step[0], step[4]]));
  const steps = describeSteps(execution.steps, (path) => traitsByPath.get(path));
  const found = findPosition(await readSteps({ history: () => rows }, { ...execution, steps }, {}));
  if (found) return found;
  const stepIndex = execution.fork?.stepIndex ?? 0; // it has no rows yet
  const first = steps.filter(([, , depth]) => depth === 0)[stepIndex];
  return first && { stepId: first[0], stepIndex };
}

/** The place of an execution by its steps, as its walk would tell it: the first step in flight, else the first that waits. */
function findPosition(steps: readonly StepRecord[]): Position | undefined {
  const open = Map.groupBy(
    steps.filter(({ endAt }) => endAt === null),
    ({ parent }) => parent,
  );
  const innermost = [...findInnermost(undefined)];
  const found = innermost.find(({ suspension }) => !suspension) ?? innermost[0];
  return found && { stepIndex: found.node.stepIndex, stepId: found.node.path };

  function* findInnermost(parent: string | undefined): Generator<StepRecord> {
    for (const step of open.get(parent) ?? []) {
      if (open.has(step.node.path)) yield* findInnermost(step.node.path);
      else yield step;
    }
  }
}
