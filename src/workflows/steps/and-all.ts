import type { Branch } from "../../engine/definition.ts";
import { joinValues } from "../../engine/walk/value.ts";
import { createStep, type OutputOfStep, type StepIn, type StepOptions, type TypedStep } from "./step.ts";

export interface BranchOptions<Steps> extends Omit<StepOptions, "retry" | "timeout"> {
  /** Every branch gets the same `data`. */
  steps: Steps;
}
export type OutputsOf<Steps> = { -readonly [K in keyof Steps]: OutputOfStep<Steps[K]> };

/** Runs all branches at once; the next `data` is the list of their results, in order. The first failure aborts the rest. */
export function andAll<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  const Steps extends readonly StepIn<Data, Input, Resume, Suspend>[] = never[],
>(options: BranchOptions<Steps>): TypedStep<Data, Input, Resume, Suspend, OutputsOf<Steps>> {
  return createStep({
    type: "andAll",
    options,
    needs: { steps: "object" },
    *run(runner, data): Branch {
      const branches = options.steps.map((step) => runner.step(step, data));
      const outcomes = yield* runner.fork("all", branches);
      return { value: joinValues(outcomes.map(({ value }) => value)) };
    },
  });
}
