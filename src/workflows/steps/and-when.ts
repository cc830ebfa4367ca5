import type { Branch, Code } from "../../engine/definition.ts";
import type { StepContext } from "../../engine/step-context.ts";
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
  const { id, condition, step } = options;
  const code: Code = async (context) => Boolean(await condition(context));
  const needs = { condition: "function", step: "object" } as const;
  return createStep("andWhen", { ...options, steps: [step] }, needs, function* (scope, data): Branch {
    const { value: holds } = yield* scope.entry({ id, suffix: "?", data, code });
    return holds === "true" ? yield* scope.step(step, data) : { value: data, skipped: true };
  });
}
