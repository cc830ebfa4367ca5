import type { Schema as SdkSchema, Tool as SdkTool } from "ai";
import { isSchema, type InputOf, type OutputOf, type Schema } from "../core/schema.ts";
import type { AgentContext } from "./context.ts";

/** A schema of valibot, zod, arktype …, or one made by the AI SDK's `jsonSchema()`. */
export type ToolSchema = Schema | SdkSchema<unknown>;
/** The input of `execute`: the output of the tool's input schema. */
export type ToolInput<S> = S extends SdkSchema<infer T> ? T : OutputOf<S, unknown>;
/** The value that `execute` may return: the input of the tool's output schema, or anything without one. */
export type ToolReturn<S> = S extends Schema ? InputOf<S, unknown> | Promise<InputOf<S, unknown>> : unknown;

export interface ToolExecution {
  /** The call that this belongs to. */
  readonly context: AgentContext;
  /** Aborted when nobody waits for the result any more. */
  readonly signal: AbortSignal;
  readonly toolCallId: string;
}

export interface DefineToolOptions<Input extends ToolSchema, Output extends Schema | undefined = undefined> {
  /** Tells the model what it is for. */
  description: string;
  /** What the model must send. It is checked before `execute` runs. */
  inputSchema: Input;
  /** What `execute` must return. */
  outputSchema?: Output;
  execute: (input: ToolInput<Input>, execution: ToolExecution) => ToolReturn<Output>;
}

/** A tool, whatever its types. */
export interface Tool {
  readonly type: "agentserve-tool";
  readonly description: string;
  readonly inputSchema: ToolSchema;
  readonly outputSchema?: Schema | undefined;
  readonly execute: (input: never, execution: ToolExecution) => unknown;
}
/** What an agent takes as a tool. */
export type AnyTool = Tool | SdkTool;

/** Something that an agent can do. */
export function defineTool<Input extends ToolSchema, Output extends Schema | undefined = undefined>(
  options: DefineToolOptions<Input, Output>,
): Tool {
  const { description, inputSchema, outputSchema, execute } = options;
  if (typeof description !== "string") throw new TypeError("defineTool: description is missing");
  if (!isToolSchema(inputSchema)) {
    throw new TypeError("defineTool: inputSchema is not a schema of valibot, zod, arktype or jsonSchema()");
  }
  if (outputSchema !== undefined && !isSchema(outputSchema)) {
    throw new TypeError("defineTool: outputSchema is not a schema of valibot, zod, arktype or another library");
  }
  if (typeof execute !== "function") throw new TypeError("defineTool: execute is missing");
  return Object.freeze({ type: "agentserve-tool", description, inputSchema, outputSchema, execute });
}

export const isOwnTool = (tool: AnyTool): tool is Tool => tool.type === ("agentserve-tool" as string);

/** One made by `jsonSchema()` of the AI SDK. */
export function isSdkSchema(schema: unknown): schema is SdkSchema<unknown> {
  return typeof schema === "object" && schema !== null && "jsonSchema" in schema && !("~standard" in schema);
}

function isToolSchema(value: unknown): value is ToolSchema {
  return isSchema(value) || isSdkSchema(value);
}
