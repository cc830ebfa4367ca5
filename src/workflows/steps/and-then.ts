import type { InputOf, OutputOf } from "../../core/schema.ts";
import {
  createStep,
  type ContextWith,
  type MaybeSchema,
  type StepOptions,
  type StepSchemas,
  type TypedStep,
} from "./step.ts";

export interface ThenOptions<
  Data,
  Input,
  Resume,
  Suspend,
  Output,
  In extends MaybeSchema,
  Out extends MaybeSchema,
  Sus extends MaybeSchema,
  Res extends MaybeSchema,
>
  extends StepOptions, StepSchemas<In, Out, Sus, Res> {
  /** Its return value is the next `data`. */
  execute: (context: ContextWith<Data, Input, Resume, Suspend, In, Sus, Res>) => Output | Promise<Output>;
}

/** Runs code; what it returns is the next `data`. */
export function andThen<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  Output extends InputOf<Out, unknown> = never,
  In extends MaybeSchema = undefined,
  Out extends MaybeSchema = undefined,
  Sus extends MaybeSchema = undefined,
  Res extends MaybeSchema = undefined,
>(
  options: ThenOptions<Data, Input, Resume, Suspend, Output, In, Out, Sus, Res>,
): TypedStep<InputOf<In, Data>, Input, Resume, Suspend, OutputOf<Out, Output>> {
  return createStep("andThen", options);
}
