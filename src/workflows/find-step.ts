import type { Step, WorkflowDefinition } from "../engine/definition/definition.ts";
import { hasOwnPaths } from "../engine/definition/step-traits.ts";

/** A step, and the workflow or sub-workflow that it is part of. */
export interface FoundStep {
  readonly step: Step;
  /** The workflow around it, then those around that one. */
  readonly workflows: readonly WorkflowDefinition[];
}

/** Finds a step by its path, which has the numbers of iterations: `each/3/pay`. */
export function findStep(workflow: WorkflowDefinition, path: string): FoundStep | undefined {
  return find([workflow], workflow.steps, path.split("/"));
}

function find(
  workflows: readonly WorkflowDefinition[],
  steps: readonly Step[],
  [head = "", ...rest]: readonly string[],
): FoundStep | undefined {
  const step = findBeside(steps, head);
  if (!step || rest.length === 0) return step && { step, workflows };
  if (step.workflow) return find([step.workflow, ...workflows], step.workflow.steps, rest);
  return find(workflows, step.steps ?? [], rest.slice(1)); // without the number of the iteration
}

/** Finds a step among these and those inside them, but not inside sub-workflows and loops: their paths are longer. */
function findBeside(steps: readonly Step[], id: string): Step | undefined {
  for (const step of steps) {
    const found = step.id === id ? step : hasOwnPaths(step) ? undefined : findBeside(step.steps ?? [], id);
    if (found) return found;
  }
  return undefined;
}
