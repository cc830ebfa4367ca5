import type { StepContext } from "../../engine/definition.ts";
import { createStep, type Made, type StepOptions, type TypedStep } from "./step.ts";

export interface WhenOptions<Data, Input, Resume, Suspend, Output> extends Omit<StepOptions, "retry" | "timeout"> {
  condition: (context: Omit<StepContext<Data, Input, Resume, Suspend>, "suspend">) => boolean | Promise<boolean>;
  /** Runs when the condition holds; otherwise `data` stays as it was. */
  step: TypedStep<Data, Input, Resume, Suspend, Output>;
}

/** Runs a step if a condition holds. */
export function andWhen<Data = unknown, Input = unknown, Resume = unknown, Suspend = never, Output = never>(
  options: WhenOptions<Data, Input, Resume, Suspend, Output>,
): TypedStep<Data, Input, Resume, Suspend, Made<Data | Output>> {
  return createStep("andWhen", { ...options, steps: [options.step] }, { condition: "function", step: "object" });
}
