import { Workflow } from "../../../src/workflows/define.ts";
import type { MaybeSchema } from "../../../src/workflows/steps/step.ts";
import { andFallback, type FallbackOptions } from "./and-fallback.ts";

/** A workflow whose chain has one more method, written like those of `Workflow`. */
class FallbackWorkflow<
  Start,
  Input,
  Data,
  Resume,
  Suspend,
  Out extends MaybeSchema,
  Id extends string = string,
> extends Workflow<Start, Input, Data, Resume, Suspend, Out, Id> {
  /** Runs a step and, if it fails, another one. */
  andFallback<First, Second>(
    options: FallbackOptions<Data, Input, Resume, Suspend, First, Second>,
  ): Workflow<Start, Input, First | Second, Resume, Suspend, Out, Id> {
    return this.append(andFallback(options));
  }
}

/** Adds the method to the chain of a workflow. The other methods return a workflow without it. */
export const withFallback = <Start, Input, Data, Resume, Suspend, Out extends MaybeSchema, Id extends string>(
  workflow: Workflow<Start, Input, Data, Resume, Suspend, Out, Id>,
): FallbackWorkflow<Start, Input, Data, Resume, Suspend, Out, Id> => new FallbackWorkflow(workflow);
