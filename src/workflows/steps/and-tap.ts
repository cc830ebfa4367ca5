import type { InputOf, OutputOf } from "../../core/schema.ts";
import type { Branch } from "../../engine/definition.ts";
import type { StepContext } from "../../engine/step-context.ts";
import { createStep, type OwnType, type MaybeSchema, type StepOptions, type TypedStep } from "./step.ts";

export interface TapOptions<Data, Input, Resume, Suspend, In extends MaybeSchema> extends StepOptions {
  inputSchema?: In;
  /** Its value is ignored; an error is logged and changes nothing. */
  execute: (context: Omit<StepContext<OutputOf<In, Data>, Input, Resume, Suspend>, "suspend">) => unknown;
}

/** A side effect: `data` goes on unchanged. */
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
    options,
    needs: { execute: "function" },
    codes: { "": { ...options, execute: (context) => Promise.resolve(options.execute(context)).then(toNull) } },
    *run(runner, data, resumed): Branch {
      try {
        yield* runner.entry(options.id, { data, resumed });
      } catch {
        // The attempt has logged its failure.
      }
      return { value: data };
    },
  });
}

const toNull = (): null => null;
