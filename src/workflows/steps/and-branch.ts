import type { Branch, StepCodes } from "../../engine/definition/definition.ts";
import { joinValues } from "../../engine/walk/value.ts";
import type { LoopContext } from "./and-for-each.ts";
import { checkStep } from "./inner.ts";
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
  const conditions = branches.map(({ condition }, index) => [
    `?${index}`,
    { execute: async (context: never) => Boolean(await condition(context)) },
  ]);
  return createStep({
    type: "andBranch",
    shape: "choice",
    options: { ...(options as StepOptions), steps: branches.map(({ step }) => step) },
    needs: {},
    codes: Object.fromEntries(conditions) as StepCodes,
    *run(runner, data): Branch {
      const entry = (index: number): Branch => runner.entry(id, { suffix: `?${index}`, data });
      const { length: count } = branches;
      const holds = yield* runner.fork({ mode: "all", count, concurrency: count, branch: entry });
      const chosen = branches.flatMap(({ step }, index) => (holds[index]!.value === "true" ? [{ step, index }] : []));
      const branch = (index: number): Branch => runner.step(chosen[index]!.step, data);
      const outcomes = yield* runner.fork({ mode: "all", count: chosen.length, concurrency: count, branch });
      const values = branches.map((_, index) => outcomes[chosen.findIndex((one) => one.index === index)]?.value);
      return { value: joinValues(values) };
    },
  });
}

// The types of a user's code were checked where the step was defined.
// oxlint-disable-next-line typescript/no-explicit-any
type AnyBranch = ConditionalBranch<any, any, any, any, any>;
