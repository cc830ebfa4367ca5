import type { Position } from "../execution.ts";
import type { StepRecord } from "./step-record.ts";

/** The place of an execution by its steps, as its walk would tell it: the first step in flight, else the first that waits. */
export function findPosition(steps: readonly StepRecord[]): Position | undefined {
  const open = Map.groupBy(
    steps.filter(({ endAt }) => endAt === null),
    ({ parent }) => parent,
  );
  const innermost = [...findInnermost(undefined)];
  const found = innermost.find(({ suspension }) => !suspension) ?? innermost[0];
  return found && { stepIndex: found.node.topIndex, stepId: found.node.path };

  function* findInnermost(parent: string | undefined): Generator<StepRecord> {
    for (const step of open.get(parent) ?? []) {
      if (open.has(step.node.path)) yield* findInnermost(step.node.path);
      else yield step;
    }
  }
}
