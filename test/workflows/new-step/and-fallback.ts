import type { Branch } from "../../../src/engine/definition/definition.ts";
import { createStep, type OwnType, type StepOptions, type TypedStep } from "../../../src/workflows/steps/step.ts";

// A step type that the product does not have, written like a file of `src/workflows/steps`.

/** The options of `andFallback()`. */
export interface FallbackOptions<Data, Input, Resume, Suspend, First, Second> extends Omit<
  StepOptions,
  "retry" | "timeout"
> {
  /** The step that runs first. */
  step: TypedStep<Data, Input, Resume, Suspend, First>;
  /** The step that runs if it fails, with the same `data`. */
  fallback: TypedStep<Data, Input, Resume, Suspend, Second>;
}

/** Runs a step and, if it fails, another one. Fails if both fail: a retry of the execution repeats only the second one. */
export function andFallback<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  First = never,
  Second = never,
>(
  options: FallbackOptions<Data, Input, Resume, Suspend, First, Second>,
): TypedStep<Data, Input, Resume, Suspend, OwnType<First | Second>> {
  const { step, fallback } = options;
  return createStep({
    type: "andFallback",
    shape: "race", // the output is that of the first step to succeed
    options: { ...options, steps: [step, fallback] },
    needs: { step: "object", fallback: "object" },
    *run(runner, data): Branch {
      const branch = (): Branch => runner.step(step, data);
      const [end] = yield* runner.collect({ count: 1, concurrency: 1, branch });
      const { value } = end && "value" in end ? end : yield* runner.step(fallback, data);
      return { value };
    },
  });
}
