import type { Branch } from "../../engine/definition/definition.ts";
import type { LoopContext } from "./and-for-each.ts";
import { createStep, type OwnType, type StepOptions, type TypedStep } from "./step.ts";

/** The options of `andWhen()`. */
export interface WhenOptions<Data, Input, Resume, Suspend, Output> extends Omit<StepOptions, "retry" | "timeout"> {
  /** The condition. Its result is stored, so a replay does not evaluate it again. */
  condition: (context: LoopContext<Data, Input, Resume, Suspend>) => boolean | Promise<boolean>;
  /** The step that runs if the condition is true. Otherwise `data` does not change. */
  step: TypedStep<Data, Input, Resume, Suspend, Output>;
}

/** Runs a step if a condition is true. */
export function andWhen<Data = unknown, Input = unknown, Resume = unknown, Suspend = never, Output = never>(
  options: WhenOptions<Data, Input, Resume, Suspend, Output>,
): TypedStep<Data, Input, Resume, Suspend, OwnType<Data | Output>> {
  const { id, condition, step } = options;
  return createStep({
    type: "andWhen",
    shape: "choice",
    passesOn: true,
    options: { ...options, steps: [step] },
    needs: { condition: "function", step: "object" },
    codes: { "?": { execute: async (context) => Boolean(await condition(context)) } },
    *run(runner, data): Branch {
      const { value: holds } = yield* runner.entry(id, { suffix: "?", data });
      if (holds !== "true" /* the JSON text */) return { value: data, skipped: true };
      const { value, attempt } = yield* runner.step(step, data); // which may be skipped itself
      return { value, attempt };
    },
  });
}
