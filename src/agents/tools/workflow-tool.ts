import { cut } from "../../core/cut.ts";
import type { WorkflowReference } from "../../engine/definition/reference.ts";
import type { ResultOf, StartOf, WorkflowId } from "../../engine/runtime.ts";
import { checkToolOptions } from "./tool-options.ts";

/** The options of `workflowTool()`. */
export interface WorkflowToolOptions {
  /** The description for the model. @default the purpose of the workflow, or its name */
  description?: string;
  /** Lets callers without a user start the workflow. Without an authentication provider, all callers may. @default false */
  anonymous?: boolean;
}

/** A tool that starts a workflow, as returned by `workflowTool()`. Frozen. */
export interface WorkflowTool<Start = never, Result = unknown> {
  readonly type: "agentserve-workflow-tool";
  readonly workflowId: string;
  /** Undefined for that of the workflow. */
  readonly description: string | undefined;
  readonly anonymous: boolean;
  /** Always undefined: the input is that of the workflow. */
  readonly inputSchema: undefined;
  readonly outputSchema?: undefined;
  /** Used only by the compiler. */
  readonly "~types"?: ((start: Start) => Result) | undefined;
}

/**
 * Makes a tool of a workflow. The input of the tool is that of the workflow, and its output the result. The execution belongs
 * to the user of the call. Throws a `TypeError` if an option is invalid.
 */
export function workflowTool<Start, Result>(
  workflow: WorkflowReference<Start, Result>,
  options?: WorkflowToolOptions,
): WorkflowTool<Start, Result>;
export function workflowTool<Id extends WorkflowId>(
  workflowId: Id,
  options?: WorkflowToolOptions,
): WorkflowTool<StartOf<Id>, ResultOf<Id>>;
export function workflowTool(
  workflow: WorkflowReference<never, unknown> | string,
  options: WorkflowToolOptions = {},
): WorkflowTool {
  const workflowId: unknown = typeof workflow === "string" ? workflow : workflow?.id;
  if (typeof workflowId !== "string" || (typeof workflow === "object" && workflow.type !== "workflow"))
    throw new TypeError(`workflowTool: expected a workflow or its id, found ${cut(String(workflow))}`);
  const { description, anonymous = false } = checkToolOptions("workflowTool", options);
  return Object.freeze({
    type: "agentserve-workflow-tool",
    workflowId,
    description,
    anonymous,
    inputSchema: undefined,
  });
}
