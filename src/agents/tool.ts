import type { Schema as SdkSchema, Tool as SdkTool } from "ai";
import { isSchema, type InputOf, type OutputOf, type Schema } from "../core/schema.ts";
import type { Runtime } from "../engine/runtime.ts";
import type { AgentContext } from "./context.ts";
import type { AgentTool, WorkflowTool } from "./tools/target-tools.ts";

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
   * Makes a call wait until a user approves it: always, or if the function returns true. The function is called once for each
   * call, with the validated input. If it throws, the call fails. A call without a stored conversation is denied.
   * @default false
   */
  needsApproval?: boolean | ((input: ToolInput<Input>, execution: ApprovalExecution) => boolean | Promise<boolean>);
  /**
   * Runs the tool. An error that it throws becomes the result of the call. In `start`, the model gets the message of a
   * `ServeError` or a time-out, and else `Tool <name> failed`.
   */
  execute: (input: ToolInput<Input>, execution: ToolExecution) => ToolReturn<Output>;
}

// The input type comes from the tool's schema, which is not known for a tool in a record of tools.
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
  expect(typeof description === "string", "description is missing");
  expect(isSchema(inputSchema) || isSdkSchema(inputSchema), `inputSchema must be ${aSchema}, or jsonSchema()`);
  expect(outputSchema === undefined || isSchema(outputSchema), `outputSchema must be ${aSchema}`);
  expect(typeof execute === "function", "execute is missing");
  const isNeed = ["undefined", "boolean", "function"].includes(typeof needsApproval);
  expect(isNeed, "needsApproval must be true, false or a function");
  return Object.freeze({ type: "agentserve-tool", description, inputSchema, outputSchema, needsApproval, execute });
}

const aSchema = "a schema from valibot, zod, arktype or another Standard Schema library";
function expect(isRight: boolean, problem: string): void {
  if (!isRight) throw new TypeError(`defineTool: ${problem}`);
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

/** Returns true if the input schema of a tool has a JSON Schema for the model. */
export function hasJsonSchema(tool: AnyTool): boolean {
  if (!isSchema(tool.inputSchema)) return true;
  const standard = tool.inputSchema["~standard"];
  // We convert valibot schemas. The SDK converts the schemas of every zod version, for its own tools.
  const isConverted = standard.vendor === "valibot" || (standard.vendor === "zod" && isSdkTool(tool));
  return isConverted || "jsonSchema" in standard;
}
