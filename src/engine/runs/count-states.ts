import type { Metrics } from "../../core/metrics.ts";
import type { ExecutionState } from "../execution.ts";

/** Counts the transitions of a change that is published for the first time. */
export function countStates(metrics: Metrics | undefined, states: readonly ExecutionState[]): void {
  if (!metrics) return;
  for (const { execution, status, last } of states) {
    const { transitions } = metrics.workflow(execution.workflowId);
    transitions[last?.to === "error" && "cancellation" in last ? "cancelled" : status]++;
  }
}

/** Counts an execution that was started. */
export function countStart(metrics: Metrics | undefined, workflowId: string): void {
  if (!metrics) return;
  const counts = metrics.workflow(workflowId);
  counts.started++;
  counts.transitions.running++;
}
