import { createHash } from "node:crypto";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { Validator, type Schema as CfSchema } from "@cfworker/json-schema";
import type { Schema as SdkSchema, Tool as SdkTool, ToolSet } from "ai";
import { toErrorMessage } from "../../core/error.ts";
import { toJsonSchema } from "../../core/schemas/json-schema.ts";
import { isSchema, validate, type Schema } from "../../core/schema.ts";
import { runInSpan } from "../../core/trace.ts";
import type { AgentDefinition } from "../define.ts";
import { findModel } from "../models/find-model.ts";
import { guardModel } from "../models/guarded-model.ts";
import { ModelFailure } from "../models/model-failure.ts";
import type { ModelLimits } from "../models/model-stream.ts";
import { loadSdk, type Sdk } from "../sdk.ts";
import {
  isOwnTool,
  isSdkSchema,
  isSdkTool,
  isValibot,
  type AnyTool,
  type ApprovalExecution,
  type Tool,
} from "../tool.ts";
import { describeTool } from "../describe.ts";
import type { ToolsByName } from "../tools/check-tools.ts";
import { isNoResult, placeholder } from "../tools/no-result.ts";
import { runOutside } from "../tools/run-tool.ts";
import { refuseOther } from "./ask-agent.ts";
import { needsApproval, refuse } from "./approvals/approval-need.ts";
import type { Operation } from "./operation.ts";
import type { ToolSignature } from "./record-text.ts";
import { isMany } from "./recorded-calls.ts";
import { bindFunctions, withApprover, withToolContext } from "./sdk-tool.ts";
import { toToolSpan } from "./spans.ts";
import { runReported } from "./tool-failure.ts";

/** An agent converted for the AI SDK. Created on the agent's first call. */
export interface PreparedAgent {
  readonly sdk: Sdk;
  /** Returns the model, bound to one call. */
  readonly model: (operation: Operation) => LanguageModelV4;
  /** The tools as the author wrote them. */
  readonly definitions: ToolsByName;
  /** Returns the tools, bound to one call. */
  readonly tools: (operation: Operation) => ToolSet;
  /** The tools as a repeated turn compares them. */
  readonly signatures: readonly ToolSignature[];
}

interface PrepareOptions {
  readonly limits: ModelLimits;
  readonly root: string;
  readonly loadTools: (agent: AgentDefinition) => Promise<ToolsByName>;
}

export async function prepareAgent(agent: AgentDefinition, options: PrepareOptions): Promise<PreparedAgent> {
  const { limits, root, loadTools } = options;
  const sdk = await loadSdk();
  const definitions = await loadTools(agent);
  const bound = Object.entries(definitions).map(([name, tool]) => [name, toSdkTool(sdk, name, tool)] as const);
  const model = guardModel(sdk, await toModel(sdk, agent, root), limits);
  return {
    sdk,
    model,
    definitions,
    tools: (operation) => Object.fromEntries(bound.map(([name, bind]) => [name, bind(operation)])),
    signatures: await Promise.all(Object.entries(definitions).map(toSignature)),
  };
}

async function toModel(sdk: Sdk, { model }: AgentDefinition, root: string) {
  if (typeof model !== "string") return model;
  try {
    return await findModel(sdk, model, root);
  } catch (error) {
    throw new ModelFailure(toErrorMessage(error), { cause: error });
  }
}

async function toSignature([name, { outputSchema }]: [string, AnyTool]): Promise<ToolSignature> {
  if (outputSchema === undefined) return [name, ""];
  const json = isSchema(outputSchema)
    ? toJsonSchema(outputSchema, "output", () => {})
    : isSdkSchema(outputSchema) && (await outputSchema.jsonSchema);
  return [name, createHash("sha256").update(JSON.stringify(json)).digest("base64url")];
}

function toSdkTool(sdk: Sdk, name: string, tool: AnyTool): (operation: Operation) => SdkTool {
  if (isOwnTool(tool)) {
    const inputSchema = toSdkSchema(sdk, tool.inputSchema);
    const { description, needsApproval: own } = tool;
    return (operation) => ({
      description,
      inputSchema,
      ...(own !== undefined && {
        needsApproval: (input: unknown, { toolCallId }: { toolCallId: string }) =>
          needsApproval(operation, { name, toolCallId }, () =>
            typeof own === "boolean" ? own : own(input as never, toExecution(operation, toolCallId)),
          ),
      }),
      execute: (input, { toolCallId, abortSignal }) =>
        recorded(operation, name, toolCallId, () => {
          refuse(operation, name, toolCallId);
          refuseOther(operation, name, toolCallId);
          return execute(tool, input, operation, toolCallId, abortSignal);
        }),
    });
  }
  if (!isSdkTool(tool)) {
    return (operation) => {
      const { description, inputSchema } = describeTool(tool, operation.outside.findWorkflow);
      return {
        description,
        inputSchema: toSdkSchema(sdk, inputSchema, true),
        execute: async (input, { toolCallId, abortSignal = operation.signal }) => {
          const call = { name, input, toolCallId, abortSignal };
          const output = await recorded(operation, name, toolCallId, () => runOutside(tool, operation, call));
          return isNoResult(output) ? placeholder : output;
        },
      };
    };
  }
  const { inputSchema, execute: run } = tool;
  const checked = {
    ...tool,
    // The SDK has no JSON Schema of a valibot schema.
    inputSchema: isSdkSchema(inputSchema) || isValibot(inputSchema) ? toSdkSchema(sdk, inputSchema) : inputSchema,
  };
  // The casts are safe: the tool is unchanged, except for a validated input and a plain output.
  if (!run) return (operation) => ({ ...checked, ...bindFunctions(tool, name, operation) }) as SdkTool;
  return (operation) => {
    const runPlain = (...[input, options]: Parameters<typeof run>) =>
      recorded(operation, name, options.toolCallId, () => {
        operation.signal.throwIfAborted(); // the SDK swallows the refusal of a hook
        refuse(operation, name, options.toolCallId);
        refuseOther(operation, name, options.toolCallId);
        return toPlainResult(run(input, withToolContext(tool, operation, options)));
      });
    return { ...checked, ...bindFunctions(tool, name, operation), execute: runPlain } as SdkTool;
  };
}

/** Runs a tool, unless its result was recorded before a crash. Its errors are reported when it runs. */
function recorded(operation: Operation, name: string, toolCallId: string, run: () => unknown): unknown {
  const { records, signal } = operation;
  const runOnce = (): unknown =>
    runReported(operation, { name, toolCallId }, () => traced(operation, name, toolCallId, run));
  const result = records ? records.runTool(name, toolCallId, runOnce, signal) : runOnce();
  return isMany(result) ? toEnd(result, operation.sdkSignal) : result;
}

/** Runs a tool with many results to its end. After an abort, the SDK's stream takes none: it would end the tool at its next one. */
async function* toEnd(results: AsyncIterable<unknown>, aborted: AbortSignal): AsyncGenerator<unknown> {
  for await (const result of results) if (!aborted.aborted) yield result;
}

/**
 * Runs a tool in a span, so that its logs and child spans belong to it. If the tool returns an async iterable, the span
 * covers only the call and not the iteration.
 */
function traced<T>(operation: Operation, name: string, toolCallId: string, run: () => T): T {
  const span = operation.trace.start((parent) => toToolSpan(parent, name, toolCallId));
  if (!span) return run();
  let result: T;
  try {
    result = runInSpan(span, run);
  } catch (error) {
    span.end(error);
    throw error;
  }
  if (result instanceof Promise)
    result.then(
      () => span.end(),
      (error: unknown) => span.end(error),
    );
  else span.end();
  return result;
}

/** Handles both kinds of SDK tool results: a single one, or an async iterable whose last one counts. */
function toPlainResult(result: unknown): unknown {
  return isMany(result) ? toPlainResults(result) : Promise.resolve(result).then(toPlain);
}

async function* toPlainResults(results: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  for await (const result of results) yield toPlain(result);
}

/**
 * Converts a value to plain JSON, as the model, the stream and the conversation get it. A value that cannot be
 * converted is an error of the tool.
 */
const toPlain = (value: unknown): unknown => JSON.parse(JSON.stringify(value) ?? "null");

async function execute(
  tool: Tool,
  input: unknown,
  operation: Operation,
  toolCallId: string,
  signal: AbortSignal = operation.signal,
): Promise<unknown> {
  operation.signal.throwIfAborted(); // an `onToolStart` hook may have failed the call
  // The SDK has validated the input against the tool's schema.
  const output = await tool.execute(input as never, {
    ...toExecution(operation, toolCallId, signal),
    idempotencyKey: operation.toIdempotencyKey(toolCallId),
  });
  const result = tool.outputSchema ? await validate(tool.outputSchema, output) : { value: output };
  if ("problem" in result) throw new Error(`invalid output: ${result.problem}`);
  return toPlain(result.value);
}

function toExecution(
  operation: Operation,
  toolCallId: string,
  signal: AbortSignal = operation.signal,
): ApprovalExecution {
  return { context: withApprover(operation, toolCallId), runtime: operation.runtime, signal, toolCallId };
}

/** `isOnlyChecked`: the value is checked, and not converted to the output of the schema. */
function toSdkSchema(sdk: Sdk, schema: Schema | SdkSchema<unknown>, isOnlyChecked = false): SdkSchema<unknown> {
  if (isSchema(schema)) {
    return sdk.jsonSchema(
      toJsonSchema(schema, "input", () => {}), // the warnings were logged when the agent was described
      {
        validate: async (value) => {
          const result = await validate(schema, value);
          if ("problem" in result) return refused(result.problem);
          return { success: true, value: isOnlyChecked ? value : result.value };
        },
      },
    );
  }
  if (schema.validate) return schema;
  // Without a `validate` function, `jsonSchema()` would accept every input.
  let validator: Validator | undefined;
  return sdk.jsonSchema(schema.jsonSchema, {
    validate: async (value) => {
      validator ??= new Validator((await schema.jsonSchema) as CfSchema, "2020-12");
      const { valid, errors } = validator.validate(value);
      const last = errors.at(-1);
      return valid ? { success: true, value } : refused(`${last?.instanceLocation}: ${last?.error}`);
    },
  });
}

const refused = (problem: string): { success: false; error: Error } => ({ success: false, error: new Error(problem) });
