import type { Branch } from "../../engine/definition/definition.ts";
import type { BranchOptions } from "./and-all.ts";
import { createStep, type OutputOfStep, type StepIn, type TypedStep } from "./step.ts";

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
      const { length: count } = options.steps;
      const branch = (index: number): Branch => runner.step(options.steps[index]!, data);
      const [winner] = yield* runner.fork({ mode: "race", count, concurrency: count, branch });
      return { value: winner?.value };
    },
  });
}
