import type { LanguageModelV4 } from "@ai-sdk/provider";
import { Validator, type Schema as CfSchema } from "@cfworker/json-schema";
import type { Schema as SdkSchema, Tool as SdkTool, ToolSet } from "ai";
import { toJsonSchema } from "../core/json-schema.ts";
import { isSchema, validate, type Schema } from "../core/schema.ts";
import type { AgentDefinition } from "./define.ts";
import { findModel } from "./find-model.ts";
import { guardModel, ModelFailure, type ModelLimits } from "./model.ts";
import type { Operation } from "./operation.ts";
import { loadSdk, type Sdk } from "./sdk.ts";
import { isOwnTool, isSdkSchema, type AnyTool, type Tool } from "./tool.ts";

/** An agent in the terms of the AI SDK; made at its first call. */
export interface PreparedAgent {
  readonly sdk: Sdk;
  readonly model: LanguageModelV4;
  /** Its tools, bound to one call. */
  readonly tools: (operation: Operation) => ToolSet;
}

export async function prepareAgent(agent: AgentDefinition, limits: ModelLimits, root: string): Promise<PreparedAgent> {
  const sdk = await loadSdk();
  const bound = Object.entries(agent.tools).map(([name, tool]) => [name, toSdkTool(sdk, tool)] as const);
  return {
    sdk,
    model: guardModel(sdk, await toModel(sdk, agent, root), limits),
    tools: (operation) => Object.fromEntries(bound.map(([name, bind]) => [name, bind(operation)])),
  };
}

async function toModel(sdk: Sdk, { model }: AgentDefinition, root: string) {
  if (typeof model !== "string") return model;
  try {
    return await findModel(sdk, model, root);
  } catch (error) {
    throw new ModelFailure(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function toSdkTool(sdk: Sdk, tool: AnyTool): (operation: Operation) => SdkTool {
  if (isOwnTool(tool)) {
    const inputSchema = toSdkSchema(sdk, tool.inputSchema);
    const { description } = tool;
    return (operation) => ({
      description,
      inputSchema,
      execute: (input, { toolCallId, abortSignal }) => execute(tool, input, operation, toolCallId, abortSignal),
    });
  }
  const checked = isSdkSchema(tool.inputSchema) ? { ...tool, inputSchema: toSdkSchema(sdk, tool.inputSchema) } : tool;
  return () => checked as SdkTool; // the same tool with the same schema, which now checks
}

async function execute(
  tool: Tool,
  input: unknown,
  operation: Operation,
  toolCallId: string,
  signal: AbortSignal = operation.signal,
): Promise<unknown> {
  operation.signal.throwIfAborted(); // a hook may just have refused it
  // The SDK has checked the input against the tool's own schema.
  const output = await tool.execute(input as never, { context: operation, signal, toolCallId });
  const result = tool.outputSchema ? await validate(tool.outputSchema, output) : { value: output };
  if ("problem" in result) throw new Error(`invalid output: ${result.problem}`);
  // As the model, the stream and the conversation will have it. What cannot be JSON is the tool's error.
  return JSON.parse(JSON.stringify(result.value) ?? "null");
}

function toSdkSchema(sdk: Sdk, schema: Schema | SdkSchema<unknown>): SdkSchema<unknown> {
  if (isSchema(schema)) {
    return sdk.jsonSchema(
      toJsonSchema(schema, "input", () => {}), // said once already, when it was described
      {
        validate: async (value) => {
          const result = await validate(schema, value);
          return "problem" in result ? refused(result.problem) : { success: true, value: result.value };
        },
      },
    );
  }
  if (schema.validate) return schema;
  // Without a check of its own, `jsonSchema()` would let everything pass.
  const validator = Promise.resolve(schema.jsonSchema).then((json) => new Validator(json as CfSchema, "2020-12"));
  return sdk.jsonSchema(schema.jsonSchema, {
    validate: async (value) => {
      const { valid, errors } = (await validator).validate(value);
      const last = errors.at(-1);
      return valid ? { success: true, value } : refused(`${last?.instanceLocation}: ${last?.error}`);
    },
  });
}

const refused = (problem: string): { success: false; error: Error } => ({ success: false, error: new Error(problem) });
