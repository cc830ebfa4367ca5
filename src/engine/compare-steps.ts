import type { Step } from "./definition/definition.ts";
import type { DescribedStep, StepPlace } from "./execution.ts";
import { hasBranches, hasOwnPaths, toTraits } from "./definition/step-traits.ts";

/**
 * The reason why an execution cannot continue on new code: the first difference among the steps that have started.
 * Undefined when it can. Later steps may change freely, unless they are branches of a step that has started.
 */
export function findMismatch(
  before: readonly StepPlace[],
  after: readonly DescribedStep[],
  started: ReadonlySet<string>,
): string | undefined {
  const last = before.findLastIndex(([path]) => started.has(path));
  const change = findChange(before, after, last + 1);
  if (change) return change;
  const fork = outermostFork(after, last); // up to here both are the same
  const end = fork === undefined ? last + 1 : endOf(before, fork);
  const inside = findChange(before, after, end);
  if (inside) return inside;
  const added = fork === undefined ? undefined : after[end];
  const outer = fork === undefined ? undefined : before[fork];
  return added && outer && added[2] > outer[2] ? `step ${outer[0]} has a new branch, ${added[0]}` : undefined;
}

/** The reason why an execution does not continue on new code. */
export const toChangeReason = (mismatch: string): string => `Workflow changed: ${mismatch}`;
/** The mismatch of a workflow that the config has no more. */
export const toGone = (workflowId: string): string => `workflow ${workflowId} no longer exists`;

/** The message about a row of a journal that the code does not lead to. */
export const toRowMismatch = (key: string): string =>
  `the journal has a result for ${key} that this version does not produce`;
/** The message about a status that the code does not lead to; `last` is the key of the last row. */
export const toStatusMismatch = (last: string): string =>
  `the stored status after ${last} is not the one that this version produces`;

/** The first difference among a number of steps. */
function findChange(before: readonly StepPlace[], after: readonly StepPlace[], count: number): string | undefined {
  for (let index = 0; index < count; index++) {
    const change = describe(before[index]!, after[index]);
    if (change) return change;
  }
  return undefined;
}

export function hasSameSteps(before: readonly StepPlace[], after: readonly StepPlace[]): boolean {
  return before.length === after.length && before.every((step, index) => !describe(step, after[index]));
}

/** The outermost step around this one, itself included, whose branches run concurrently. */
function outermostFork(steps: readonly DescribedStep[], of: number): number | undefined {
  let found: number | undefined;
  let depth = Infinity;
  for (let index = of; index >= 0; index--) {
    const [, , own, , traits] = steps[index]!;
    if (own >= depth) continue;
    depth = own;
    if (hasBranches(traits)) found = index;
  }
  return found;
}

/** The index after the last step inside a step. */
function endOf(steps: readonly StepPlace[], of: number): number {
  const end = steps.findIndex(([, , depth], index) => index > of && depth <= steps[of]![2]);
  return end < 0 ? steps.length : end;
}

function describe([path, type, depth]: StepPlace, now: StepPlace | undefined): string | undefined {
  if (!now) return `step ${path} was removed`;
  if (now[0] !== path) return `step ${now[0]} is now where step ${path} was`;
  if (now[1] !== type) return `step ${path} was ${type} and is now ${now[1]}`;
  return now[2] === depth ? undefined : `step ${path} is now inside another step`;
}

/** The steps of a definition as they are compared: in order, nested steps behind the step that contains them. */
export function listSteps(steps: readonly Step[], prefix = "", depth = 0, isRedacted = false): DescribedStep[] {
  return steps.flatMap((step) => {
    const path = prefix + step.id;
    const isOwn = isRedacted || step.redact === true;
    const inner = listSteps(step.steps ?? [], hasOwnPaths(step) ? `${path}/` : prefix, depth + 1, isOwn);
    return [[path, step.type, depth, isOwn ? "redacted" : null, toTraits(step)], ...inner];
  });
}
