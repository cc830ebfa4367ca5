import { toRetryDelay } from "../walk/entries.ts";
import { toIdempotencyKey } from "../walk/journal-keys.ts";
import type { WorkflowDefinition } from "../definition/definition.ts";
import { toCodeTable, type CodeTable } from "../definition/code-table.ts";
import type { StepOutcome } from "./judge-steps.ts";
import { stepStatuses, type IterationCount, type StepRecord, type StepStatus } from "./step-record.ts";
import type { StepRun } from "./step-run.ts";
import type { StepNode, StepTree } from "./step-tree.ts";

/** Returns the delay before an attempt; 0 if there is none, or if the code is gone. */
export type DelayOf = (node: StepNode, attempt: number, entry: string) => number;

export function toRecord(run: StepRun, verdicts: ReadonlyMap<StepRun, StepOutcome>, delayOf: DelayOf): StepRecord {
  const { node, outer, order, startAt, input, output, parked, failure, end } = run;
  const { status, endAt } = verdicts.get(run) ?? { status: end!.status, endAt: end!.at };
  const isEnded = endAt !== null;
  const open = { attempt: run.attempt, startAt: run.readyAt, endAt };
  const attempts = run.isInFlight && !end ? [...run.attempts, open] : run.attempts;
  const delay = failure && !isEnded && !failure.isHeld ? delayOf(node, run.attempt, failure.entry) : 0;
  return {
    node,
    parent: outer?.node.path,
    order,
    status,
    startAt,
    endAt,
    attempts,
    input: input.value,
    output: output?.value,
    suspension: isEnded ? undefined : parked,
    nextAttemptAt: delay > 0 ? failure!.delayFrom + delay : undefined,
    count: toCount(run, verdicts),
  };
}

function toCount({ loop, inner }: StepRun, verdicts: ReadonlyMap<StepRun, StepOutcome>): IterationCount | undefined {
  if (!loop) return undefined;
  const counts = new Map(loop.ended);
  for (const one of inner) {
    const status = verdicts.get(one)?.status ?? one.end!.status;
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  const total = loop.start?.count ?? loop.begun;
  const found = stepStatuses.flatMap((status) => (counts.has(status) ? [[status, counts.get(status)!] as const] : []));
  return { total, ...Object.fromEntries(found) };
}

/** The steps that are asked for. */
export interface StepSelection {
  readonly status?: StepStatus | undefined;
  /** Only this step or iteration. */
  readonly path?: string | undefined;
  /** Only the iterations of this loop and what they contain; or what this iteration or sub-workflow contains. */
  readonly under?: string | undefined;
  /** Only steps that began after this one. */
  readonly after?: number | undefined;
  /** Max steps that are needed. @default all */
  readonly limit?: number | undefined;
  /** True if steps in loops are left out, except those that `under`, `path` or `status` names. @default false */
  readonly isFolded?: boolean | undefined;
}

/** Returns whether a record is asked for. */
export function createFilter(tree: StepTree, selection: StepSelection): (record: StepRecord) => boolean {
  const { status, path, under, after = 0, isFolded = false } = selection;
  const place = under === undefined ? undefined : tree.parse(under);
  const isLoop = place !== undefined && place.iteration === undefined && place.node.traits.shape === "loop";
  /** The loop whose iterations are shown. Those of loops inside it are not. */
  const loop = isLoop ? under : place?.loop;
  return ({ node, order, status: own }) => {
    if (order <= after || (status !== undefined && own !== status)) return false;
    if (path !== undefined && node.path !== path) return false;
    if (under !== undefined && !node.path.startsWith(`${under}/`)) return false;
    if (!isFolded || path !== undefined || status !== undefined) return true;
    return tree.parse(node.path)?.loop === loop;
  };
}

/** The retry delays of an execution on this code. The journal has none: they follow from the code that retries. */
export function toDelays(workflow: WorkflowDefinition, executionId: string): DelayOf {
  let codes: CodeTable | undefined;
  return ({ codePath }, attempt, entry) => {
    codes ??= toCodeTable(workflow);
    const { retry } = codes.get(codePath) ?? {};
    return retry ? toRetryDelay(retry, attempt, toIdempotencyKey(executionId, entry)) : 0;
  };
}
