import type { Schema as SdkSchema, Tool as SdkTool } from "ai";
import { isSchema, type InputOf, type OutputOf, type Schema } from "../core/schema.ts";
import type { Runtime } from "../engine/runtime.ts";
import type { AgentContext } from "./context.ts";
import type { AgentTool } from "./tools/agent-tool.ts";
import type { WorkflowTool } from "./tools/workflow-tool.ts";

/** A schema of valibot, zod, arktype or another Standard Schema library, or `jsonSchema()` of the AI SDK. */
export type ToolSchema = Schema | SdkSchema<unknown>;
/** The input of `execute`: the output type of the tool's input schema. */
export type ToolInput<S> = S extends SdkSchema<infer T> ? T : OutputOf<S, unknown>;
/** The return type of `execute`: the input type of the tool's output schema, or any type without one. */
export type ToolReturn<S> = S extends Schema ? InputOf<S, unknown> | Promise<InputOf<S, unknown>> : unknown;

/** The second argument of a tool's `execute`. */
export interface ToolExecution {
  /** The context of the agent call. */
  readonly context: AgentContext;
  /** Starts workflows, asks agents and sends events, for the user of the call. */
  readonly runtime: Runtime;
  /** Aborted when the agent call is aborted. */
  readonly signal: AbortSignal;
  /** The id of the tool call, as the model sent it. */
  readonly toolCallId: string;
  /**
   * A key for services that must not act twice. It is the same if a crash makes the tool run again, and differs between
   * two calls.
   */
  readonly idempotencyKey: string;
}

/** The second argument of a tool's `needsApproval`. */
export type ApprovalExecution = Omit<ToolExecution, "idempotencyKey">;

/** The options of `defineTool()`. */
export interface DefineToolOptions<Input extends ToolSchema, Output extends Schema | undefined = undefined> {
  /** The description for the model: the purpose of the tool, and when to call it. */
  description: string;
  /** The schema of the input. The input is validated before `execute` runs. */
  inputSchema: Input;
  /** The schema of the return value. A value that does not match is an error of the tool. */
  outputSchema?: Output;
  /**
   * Whether a call waits until a user approves it: always, or if the function returns true. It is asked once for each call,
   * with the validated input. If it throws, the call fails. A call without a stored conversation cannot wait, and is denied.
   * @default false
   */
  needsApproval?: boolean | ((input: ToolInput<Input>, execution: ApprovalExecution) => boolean | Promise<boolean>);
  /**
   * Runs the tool. The model gets an error that it throws as the result of the call. In `start`, that is the message of a
   * `ServeError` or a time-out, and else `Tool <name> failed`.
   */
  execute: (input: ToolInput<Input>, execution: ToolExecution) => ToolReturn<Output>;
}

// The type of the input is that of the tool's schema, which a tool in a record of tools has lost.
// oxlint-disable-next-line typescript/no-explicit-any
type AsksApproval = (input: any, execution: ApprovalExecution) => boolean | Promise<boolean>;

/** A tool as returned by `defineTool()`. Frozen. */
export interface Tool {
  readonly type: "agentserve-tool";
  readonly description: string;
  readonly inputSchema: ToolSchema;
  readonly outputSchema?: Schema | undefined;
  readonly needsApproval?: boolean | AsksApproval | undefined;
  readonly execute: (input: never, execution: ToolExecution) => unknown;
}
/** A tool of an agent: from `defineTool()`, `workflowTool()` or `agentTool()`, or from the AI SDK. */
export type AnyTool = Tool | WorkflowTool | AgentTool | SdkTool;

/** Defines a tool that the model of an agent can call. Throws a `TypeError` if an option is invalid. */
export function defineTool<Input extends ToolSchema, Output extends Schema | undefined = undefined>(
  options: DefineToolOptions<Input, Output>,
): Tool {
  const { description, inputSchema, outputSchema, needsApproval, execute } = options;
  if (typeof description !== "string") throw new TypeError("defineTool: description is missing");
  if (!isToolSchema(inputSchema)) {
    throw new TypeError(
      "defineTool: inputSchema must be a schema from valibot, zod, arktype or another Standard Schema library, or jsonSchema()",
    );
  }
  if (outputSchema !== undefined && !isSchema(outputSchema)) {
    throw new TypeError(
      "defineTool: outputSchema must be a schema from valibot, zod, arktype or another Standard Schema library",
    );
  }
  if (typeof execute !== "function") throw new TypeError("defineTool: execute is missing");
  if (needsApproval !== undefined && typeof needsApproval !== "boolean" && typeof needsApproval !== "function") {
    throw new TypeError("defineTool: needsApproval must be true, false or a function");
  }
  return Object.freeze({ type: "agentserve-tool", description, inputSchema, outputSchema, needsApproval, execute });
}

export const isOwnTool = (tool: AnyTool): tool is Tool => tool.type === ("agentserve-tool" as string);
export const isWorkflowTool = (tool: AnyTool): tool is WorkflowTool =>
  tool.type === ("agentserve-workflow-tool" as string);
export const isAgentTool = (tool: AnyTool): tool is AgentTool => tool.type === ("agentserve-agent-tool" as string);
/** Returns true for a tool of the AI SDK. */
export const isSdkTool = (tool: AnyTool): tool is SdkTool =>
  !isOwnTool(tool) && !isWorkflowTool(tool) && !isAgentTool(tool);

/** Returns true for a schema made by `jsonSchema()` of the AI SDK. */
export function isSdkSchema(schema: unknown): schema is SdkSchema<unknown> {
  return typeof schema === "object" && schema !== null && "jsonSchema" in schema && !("~standard" in schema);
}

/** Returns true for a schema of valibot. */
export const isValibot = (schema: unknown): schema is Schema =>
  isSchema(schema) && schema["~standard"].vendor === "valibot";

/** Returns true if a model can be told the input schema of a tool. */
export function hasJsonSchema(tool: AnyTool): boolean {
  if (!isSchema(tool.inputSchema)) return true;
  const standard = tool.inputSchema["~standard"];
  // We convert those of valibot. The SDK converts those of every version of zod, for its own tools.
  const isConverted = standard.vendor === "valibot" || (standard.vendor === "zod" && isSdkTool(tool));
  return isConverted || "jsonSchema" in standard;
}

function isToolSchema(value: unknown): value is ToolSchema {
  return isSchema(value) || isSdkSchema(value);
}
