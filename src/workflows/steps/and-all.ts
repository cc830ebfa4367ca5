import type { Branch } from "../../engine/definition/definition.ts";
import { joinValues } from "../../engine/walk/value.ts";
import { forkSteps } from "./inner.ts";
import { createStep, type OutputOfStep, type StepIn, type StepOptions, type TypedStep } from "./step.ts";

/** The options of `andAll()` and `andRace()`. */
export interface BranchOptions<Steps> extends Omit<StepOptions, "retry" | "timeout"> {
  /** The branches. Each one gets the same `data`. */
  steps: Steps;
}
/** The output types of the steps, in order. */
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
      const outcomes = yield* forkSteps(runner, "all", options.steps, data);
      return { value: joinValues(outcomes.map(({ value }) => value)) };
    },
  });
}

/**
 * Runs all branches concurrently. The output of the first one to succeed is the next `data`, and the others are
 * aborted. Fails if all branches fail.
 */
export function andRace<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  const Steps extends readonly StepIn<Data, Input, Resume, Suspend>[] = never[],
>(options: BranchOptions<Steps>): TypedStep<Data, Input, Resume, Suspend, OutputOfStep<Steps[number]>> {
  if (options.steps?.length === 0) throw new TypeError(`andRace ${options.id}: steps: expected at least one step`);
  return createStep({
    type: "andRace",
    shape: "race",
    options,
    needs: { steps: "object" },
    *run(runner, data): Branch {
      const [winner] = yield* forkSteps(runner, "race", options.steps, data);
      return { value: winner?.value };
    },
  });
}
