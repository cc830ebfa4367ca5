import type { Branch, ExecuteCode, TypedWorkflow } from "../../engine/definition/definition.ts";
import type { LoopContext } from "./and-for-each.ts";
import { createStep, type OwnType, type StepOptions, type TypedStep } from "./step.ts";

/** The options of `andWorkflow()`. */
export interface WorkflowOptions<Data, Input, Resume, Suspend, Result, Output> extends Omit<
  StepOptions,
  "retry" | "timeout"
> {
  /** The workflow to run. Its input is the `data` of this step. */
  workflow: TypedWorkflow<Data, Result>;
  /** Converts the result to the next `data`. @default the result itself */
  map?: (result: Result, context: LoopContext<Data, Input, Resume, Suspend>) => Output | Promise<Output>;
}

/** Runs another workflow inside this execution. If it suspends or fails, so does this execution. */
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
  // The workflow has validated its result against its schema.
  const execute: ExecuteCode | undefined = map && ((context, { argument }) => map(argument as Result, context));
  return createStep({
    type: "andWorkflow",
    shape: "child",
    options: { ...options, inputSchema, steps },
    needs: { workflow: "object" },
    codes: execute ? { ">": { execute } } : {},
    *run(runner, data): Branch {
      const { value } = yield* runner.runWorkflow(id, workflow, data);
      return execute ? yield* runner.entry(id, { suffix: ">", data, argument: value }) : { value };
    },
  });
}
