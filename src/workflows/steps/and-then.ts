import type { InputOf, OutputOf, Schema } from "../../core/schema.ts";
import {
  createStep,
  type ContextWith,
  type MaybeSchema,
  type StepOptions,
  type StepSchemas,
  type TypedStep,
} from "./step.ts";

/** The options of `andThen()`. */
export interface ThenOptions<
  Data,
  Input,
  Resume,
  Suspend,
  Returned,
  In extends MaybeSchema,
  Out extends MaybeSchema,
  Sus extends MaybeSchema,
  Res extends MaybeSchema,
>
  extends StepOptions, StepSchemas<In, Out, Sus, Res> {
  /** The function to run. Its return value is the next `data`. */
  execute: (context: ContextWith<Data, Input, Resume, Suspend, In, Sus, Res>) => Returns<Out, Returned>;
}

/** The return type of `execute`: the input type of the output schema, or the inferred type without one. */
export type Returns<Out, Returned> = Out extends Schema ? InputOf<Out, never> | Promise<InputOf<Out, never>> : Returned;

/** Runs a function. Its return value is the next `data`. */
export function andThen<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  Returned = never,
  In extends MaybeSchema = undefined,
  Out extends MaybeSchema = undefined,
  Sus extends MaybeSchema = undefined,
  Res extends MaybeSchema = undefined,
>(
  options: ThenOptions<Data, Input, Resume, Suspend, Returned, In, Out, Sus, Res>,
): TypedStep<InputOf<In, Data>, Input, Resume, Suspend, OutputOf<Out, Awaited<Returned>>> {
  return createStep({
    type: "andThen",
    shape: "leaf",
    options,
    needs: { execute: "function" },
    codes: { "": { ...options, suspends: true, execute: (context) => options.execute(context) } },
    run: (runner, data, resumed) => runner.entry(options.id, { data, resumed }),
  });
}
