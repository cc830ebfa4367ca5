import type { Branch, Step, StepCodes } from "../../engine/definition/definition.ts";
import { joinValues } from "../../engine/walk/value.ts";
import type { LoopContext } from "./and-for-each.ts";
import { checkStep, forkSteps, type CodeContext } from "./inner.ts";
import { createStep, type StepOptions, type TypedStep } from "./step.ts";

/** One branch of `andBranch()`. */
export interface ConditionalBranch<Data, Input, Resume, Suspend, Output> {
  /** The condition. Its result is stored, so a replay does not evaluate it again. */
  condition: (context: LoopContext<Data, Input, Resume, Suspend>) => boolean | Promise<boolean>;
  /** The step that runs if the condition is true. */
  step: TypedStep<Data, Input, Resume, Suspend, Output>;
}
/** The options of `andBranch()`. */
export interface BranchesOptions<Data, Input, Resume, Suspend, Outputs extends readonly unknown[]> extends Omit<
  StepOptions,
  "retry" | "timeout"
> {
  /** The branches. All whose condition is true run, at the same time. */
  branches: readonly [...{ [K in keyof Outputs]: ConditionalBranch<Data, Input, Resume, Suspend, Outputs[K]> }];
}

/**
 * Runs every branch whose condition is true, at the same time. The next `data` is an array in the order of the branches, with
 * null for those that did not run.
 */
export function andBranch<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  const Outputs extends readonly unknown[] = [],
>(
  options: BranchesOptions<Data, Input, Resume, Suspend, Outputs>,
): TypedStep<Data, Input, Resume, Suspend, (Outputs[number] | null)[]> {
  const { id } = options;
  const branches = options.branches as readonly AnyBranch[];
  if (!Array.isArray(branches) || branches.length === 0)
    throw new TypeError(`andBranch ${id}: branches: expected at least one branch`);
  for (const [index, branch] of branches.entries()) {
    const what = `andBranch ${id}: branches[${index}]`;
    if (typeof branch?.condition !== "function") throw new TypeError(`${what}: condition is missing`);
    checkStep(branch.step, `${what}: step`);
  }
  const codes = branches.map(({ condition }, index) => [
    `?${index}`,
    { execute: async (context: CodeContext) => Boolean(await condition(context)) },
  ]);
  const steps = branches.map(({ step }) => step);
  return createStep({
    type: "andBranch",
    shape: "choice",
    options: { ...(options as StepOptions), steps },
    needs: {},
    codes: Object.fromEntries(codes) as StepCodes,
    *run(runner, data): Branch {
      const entry = (index: number): Branch => runner.entry(id, { suffix: `?${index}`, data });
      const { length: count } = steps;
      const holds = yield* runner.fork({ mode: "all", count, concurrency: count, branch: entry });
      const chosen = steps.filter((_, index) => holds[index]?.value === "true");
      const outcomes = yield* forkSteps(runner, "all", chosen, data);
      return { value: joinValues(steps.map((step) => outcomes[chosen.indexOf(step)]?.value)) };
    },
  });
}

interface AnyBranch {
  readonly condition: (context: CodeContext) => unknown;
  readonly step: Step;
}
