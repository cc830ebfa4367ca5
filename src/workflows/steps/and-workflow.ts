import type { StepContext } from "../../engine/step-context.ts";
import type { Branch, ExecuteCode, WorkflowDefinition } from "../../engine/definition.ts";
import { createStep, type OwnType, type StepOptions, type TypedStep } from "./step.ts";

/** A workflow as a step sees it: what it takes and what it makes. */
export interface TypedWorkflow<Start, Result> extends WorkflowDefinition {
  /** For the compiler only. */
  readonly "~types"?: ((start: Start) => Result) | undefined;
}

export interface WorkflowOptions<Data, Input, Resume, Suspend, Result, Output> extends Omit<
  StepOptions,
  "retry" | "timeout"
> {
  /** Its input is this step's `data`. */
  workflow: TypedWorkflow<Data, Result>;
  /** Makes the next `data` of its result. @default the result itself */
  map?: (
    result: Result,
    context: Omit<StepContext<Data, Input, Resume, Suspend>, "suspend">,
  ) => Output | Promise<Output>;
}

/** Runs another workflow inside this execution: its suspension suspends this one, its error is this one's. */
export function andWorkflow<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  Result = unknown,
  Output = Result,
>(
  options: WorkflowOptions<Data, Input, Resume, Suspend, Result, Output>,
): TypedStep<Data, Input, Resume, Suspend, OwnType<Output>> {
  const { inputSchema, steps } = options.workflow ?? {};
  const { id, workflow, map } = options;
  // The workflow has checked its result against its schema.
  const execute: ExecuteCode | undefined = map && ((context, { argument }) => map(argument as Result, context));
  return createStep({
    type: "andWorkflow",
    options: { ...options, inputSchema, steps },
    needs: { workflow: "object" },
    codes: execute ? { ">": { execute } } : {},
    *run(runner, data): Branch {
      const { value } = yield* runner.runWorkflow(id, workflow, data);
      return execute ? yield* runner.entry(id, { suffix: ">", data, argument: value }) : { value };
    },
  });
}
