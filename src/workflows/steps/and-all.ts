import type { Branch } from "../../engine/definition/definition.ts";
import { joinValues } from "../../engine/walk/value.ts";
import { createStep, type OutputOfStep, type StepIn, type StepOptions, type TypedStep } from "./step.ts";

/** The options of `andAll()` and `andRace()`. */
export interface BranchOptions<Steps> extends Omit<StepOptions, "retry" | "timeout"> {
  /** The branches. Each one gets the same `data`. */
  steps: Steps;
}
/** The output types of a list of steps, in order. */
export type OutputsOf<Steps> = { -readonly [K in keyof Steps]: OutputOfStep<Steps[K]> };

/**
 * Runs all branches concurrently. The next `data` is the array of their outputs, in order. The first failure aborts the
 * other branches.
 */
export function andAll<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  const Steps extends readonly StepIn<Data, Input, Resume, Suspend>[] = never[],
>(options: BranchOptions<Steps>): TypedStep<Data, Input, Resume, Suspend, OutputsOf<Steps>> {
  return createStep({
    type: "andAll",
    shape: "all",
    options,
    needs: { steps: "object" },
    *run(runner, data): Branch {
      const { length: count } = options.steps;
      const branch = (index: number): Branch => runner.step(options.steps[index]!, data);
      const outcomes = yield* runner.fork({ mode: "all", count, concurrency: count, branch });
      return { value: joinValues(outcomes.map(({ value }) => value)) };
    },
  });
}
