import { cut } from "../../core/cut.ts";
import type { Step, WorkflowDefinition } from "../../engine/definition/definition.ts";
import { stepSourcesOf } from "./and-map.ts";

type Chain = Pick<WorkflowDefinition, "id" | "steps">;

/** Throws if the next step of a chain has a taken id, or reads the output of a step that is not before it. */
export function checkChain({ id: workflowId, steps }: Chain, next: Step): void {
  const taken = new Set(steps.flatMap(idsOf));
  for (const id of idsOf(next)) {
    if (taken.has(id)) throw new TypeError(`Workflow ${workflowId}: two steps have the id ${id}`);
    taken.add(id);
  }
  if ([...allSteps([next])].some((one) => stepSourcesOf(one).length > 0))
    checkSources(workflowId, next, "", listOutputs(steps, ""));
}

/** Returns the ids that a step uses in its workflow. The paths inside a sub-workflow begin with the id of its step. */
function idsOf(step: Step): string[] {
  const nested = step.shape === "child" ? [] : (step.steps ?? []);
  return [step.id, ...nested.flatMap(idsOf)];
}

/**
 * `known` has the readable outputs as path patterns. In them, `*` is the number of an iteration. `+` is one that the
 * step must name, because the step itself is in a later iteration of that loop.
 */
function checkSources(workflowId: string, step: Step, prefix: string, known: string[]): void {
  for (const { field, stepId } of stepSourcesOf(step)) {
    if (canRead(stepId, prefix, known)) continue;
    throw new TypeError(
      `Workflow ${workflowId}: andMap ${step.id}: map.${field}.stepId: no step before it has the path ${cut(JSON.stringify(stepId))}`,
    );
  }
  const isLoop = step.shape === "loop";
  const { steps = [] } = step;
  if (step.workflow) {
    known.push(...listOutputs(steps, `${prefix}${step.id}/`)); // its chain has checked them
  } else if (isLoop) {
    const inside = [...known, ...listOutputs(steps, `${prefix}${step.id}/+/`)];
    for (const one of steps) checkSources(workflowId, one, `${prefix}${step.id}/*/`, inside);
    known.push(...listOutputs(steps, `${prefix}${step.id}/*/`));
  } else {
    for (const one of steps) checkSources(workflowId, one, prefix, known);
  }
  known.push(prefix + step.id);
}

/** As `getStepData` finds it: beside the step first, then beside the steps around it. */
function canRead(stepId: string, prefix: string, known: readonly string[]): boolean {
  const scope = prefix.split("/").slice(0, -1);
  return scope
    .concat("")
    .some((_, outer) => known.some((path) => fits(path.split("/"), [...scope.slice(0, outer), ...stepId.split("/")])));
}

function fits(pattern: readonly string[], path: readonly string[]): boolean {
  if (pattern.length !== path.length) return false;
  return path.every((found, index) => {
    const part = pattern[index];
    return part === found || ((part === "*" || part === "+") && /^(0|[1-9]\d*)$/.test(found));
  });
}

/** The output paths of steps, inner steps included. */
function listOutputs(steps: readonly Step[], prefix: string): string[] {
  return steps.flatMap((step) => {
    const path = prefix + step.id;
    const inside = step.workflow ? `${path}/` : step.shape === "loop" ? `${path}/*/` : prefix;
    return [path, ...listOutputs(step.steps ?? [], inside)];
  });
}

function* allSteps(steps: readonly Step[]): Generator<Step> {
  for (const step of steps) {
    yield step;
    if (!step.workflow) yield* allSteps(step.steps ?? []);
  }
}
