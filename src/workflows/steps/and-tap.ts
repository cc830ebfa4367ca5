import type { InputOf, OutputOf } from "../../core/schema.ts";
import type { Branch } from "../../engine/definition/definition.ts";
import type { StepContext } from "../../engine/definition/step-context.ts";
import { createStep, type OwnType, type MaybeSchema, type StepOptions, type TypedStep } from "./step.ts";

/** The options of `andTap()`. */
export interface TapOptions<Data, Input, Resume, Suspend, In extends MaybeSchema> extends StepOptions {
  /** The schema of `data`. */
  inputSchema?: In;
  /** The side effect. Its return value is ignored, and an error is only logged. */
  execute: (context: Omit<StepContext<OutputOf<In, Data>, Input, Resume, Suspend>, "suspend">) => unknown;
}

/** Runs a side effect. `data` does not change. */
export function andTap<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  In extends MaybeSchema = undefined,
>(
  options: TapOptions<Data, Input, Resume, Suspend, In>,
): TypedStep<InputOf<In, Data>, Input, Resume, Suspend, OwnType<Data>> {
  return createStep({
    type: "andTap",
    shape: "leaf",
    tolerates: true,
    passesOn: true,
    options,
    needs: { execute: "function" },
    codes: { "": { ...options, execute: (context) => Promise.resolve(options.execute(context)).then(toNull) } },
    *run(runner, data, resumed): Branch {
      yield* runner.entry(options.id, { data, resumed, isTolerated: true }); // the attempt has logged its failure
      return { value: data };
    },
  });
}

const toNull = (): null => null;
