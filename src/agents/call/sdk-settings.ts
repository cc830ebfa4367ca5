import { tracingChannel } from "node:diagnostics_channel";
import type { ModelMessage, ToolSet } from "ai";
import { cut } from "../../core/cut.ts";
import { badRequest, ServeError } from "../../core/error.ts";
import { currentSpan, toTraceparent } from "../../core/trace.ts";
import type { AgentContext } from "../context.ts";
import { toModelSettings, type ModelSettings } from "../define.ts";
import type { ObjectShape } from "../schemas/object-shape.ts";
import type { Sdk } from "../sdk.ts";
import { toDenials } from "./approvals/approval-need.ts";
import type { Operation } from "./operation.ts";
import type { ToolsByName } from "../tools/check-tools.ts";
import type { AgentInput } from "./history/messages.ts";
import type { PreparedAgent } from "./prepare.ts";
import { toToolsContext } from "./sdk-tool.ts";
import { ToolFailure } from "./tool-failure.ts";

/** The arguments of the SDK for one call. */
export type SdkSettings = Parameters<Sdk["generateText"]>[0];

export async function toSdkSettings(
  { agent, operation }: { readonly agent: PreparedAgent; readonly operation: Operation },
  input: AgentInput | undefined,
  messages: ModelMessage[],
  shape: ObjectShape | undefined,
): Promise<SdkSettings> {
  const { instructions, maxSteps, maxRetries, settings } = operation.agent;
  const { providerOptions, ...asked } = toModelSettings(operation.options);
  const { records } = operation;
  if (!records?.found) await operation.hook("onStart", { messages });
  const text = records?.found
    ? records.found.instructions
    : typeof instructions === "function"
      ? await toInstructions(instructions, operation)
      : instructions;
  records?.begin({ input, instructions: text, tools: agent.signatures });
  const all: SdkSettings = {
    ...settings,
    ...asked,
    // The cast is safe: provider options are JSON.
    providerOptions: mergeOptions(providerOptions, settings.providerOptions) as never,
    model: agent.model(operation),
    instructions: text,
    messages,
    stopWhen: [
      agent.sdk.isStepCount(Math.min(operation.options.maxSteps ?? maxSteps, maxSteps)),
      () => operation.suspended.size > 0,
    ],
    abortSignal: operation.sdkSignal,
    experimental_download: refuseToFetch,
  };
  // Events without a listener would take 5 KB for each answer that is open.
  if (!isHeard()) all.telemetry = { isEnabled: false };
  // The provider can continue our trace.
  const trace = operation.trace.span ?? currentSpan();
  if (trace) all.headers = { ...all.headers, traceparent: toTraceparent(trace) };
  if (maxRetries !== undefined) all.maxRetries = maxRetries;
  addTools(all, agent, operation);
  if (shape) all.output = toOutput(shape);
  addHooks(all, operation);
  return all;
}

function addTools(all: SdkSettings, agent: PreparedAgent, operation: Operation): void {
  const tools = agent.definitions;
  const gone = toGoneTools(agent.sdk, tools, operation);
  if (gone) all.activeTools = Object.keys(tools); // the model is not shown them
  if (gone || Object.keys(tools).length > 0) {
    all.tools = { ...agent.tools(operation), ...gone };
    // Ids of approvals are ours. The types of the SDK do not show this option.
    Object.assign(all, { _internal: { generateId: operation.generateId } });
    if (!operation.mayWait) Object.assign(all, { toolApproval: toDenials(all.tools) });
  }
  const toolsContext = toToolsContext(tools, operation);
  if (Object.keys(toolsContext).length > 0) Object.assign(all, { toolsContext });
}

function addHooks(all: SdkSettings, operation: Operation): void {
  const { records } = operation;
  const { hooks } = operation.agent;
  // Hooks are not called again for calls that were recorded before a crash.
  if (hooks.onStepEnd)
    all.onStepEnd = (step) =>
      records?.isStepFound(step.stepNumber) || operation.isPaused ? undefined : operation.hook("onStepEnd", { step });
  if (hooks.onToolStart) {
    all.onToolExecutionStart = ({ toolCall: { toolName, toolCallId, input: sent } }) =>
      records?.isToolFound(toolCallId) || operation.openCall(toolCallId)?.inner
        ? undefined
        : operation.hook("onToolStart", { toolName, toolCallId, input: sent });
  }
  if (hooks.onToolEnd) {
    all.onToolExecutionEnd = ({ toolCall: { toolName, toolCallId, input: sent }, toolOutput }) => {
      if (records?.isToolFound(toolCallId) || operation.suspended.has(toolCallId)) return undefined;
      const { output, error } = toolOutput as { output?: unknown; error?: unknown };
      // A hook is the author's own code.
      const own = error instanceof ToolFailure ? (error.cause ?? error) : error;
      return operation.hook("onToolEnd", { toolName, toolCallId, input: sent, output, error: own });
    };
  }
}

const channel = tracingChannel("ai:telemetry");
/** True if the host listens to the calls of the AI SDK: with an integration, or on its channel. */
const isHeard = (): boolean =>
  (globalThis.AI_SDK_TELEMETRY_INTEGRATIONS ?? []).length > 0 || channel.hasSubscribers !== false;

async function toInstructions(make: (context: AgentContext) => unknown, operation: Operation): Promise<string> {
  const text = await make(operation.context);
  if (typeof text !== "string") throw new TypeError(`instructions: expected a string, found ${typeof text}`);
  return text;
}

type ProviderOptions = ModelSettings["providerOptions"];
/** Merges the provider options of a client and the author. A client can add options, but not override the author's. */
function mergeOptions(client: ProviderOptions, author: ProviderOptions): ProviderOptions {
  if (!client || !author) return client ?? author;
  const names = [...new Set([...Object.keys(client), ...Object.keys(author)])];
  return Object.fromEntries(names.map((name) => [name, { ...client[name], ...author[name] }]));
}

/** Only passes the schema to the model: the shape parses and validates the answer. */
const toOutput = ({ schema }: ObjectShape): NonNullable<SdkSettings["output"]> => ({
  name: "object",
  responseFormat: Promise.resolve({ type: "json", schema }),
  parseCompleteOutput: async ({ text }) => text,
  // The SDK holds back text until this value changes.
  parsePartialOutput: async ({ text }) => ({ partial: text.length }),
  createElementStreamTransform: () => undefined,
});

/** Rejects URLs that the provider does not fetch itself. The server never fetches a URL that a client sends. */
const refuseToFetch: NonNullable<SdkSettings["experimental_download"]> = async (files) =>
  files.map(({ url, isUrlSupportedByModel }) => {
    if (isUrlSupportedByModel) return null;
    const { protocol } = new URL(url); // the SDK's type is URL, but the value may be a string
    throw badRequest(`Invalid request: the model's provider does not fetch ${cut(protocol)} URLs; send a data: URL`);
  });

/**
 * Returns a substitute for each approved tool that no longer exists: its call ends with an error, and the turn continues.
 * Undefined if there are none.
 */
function toGoneTools(sdk: Sdk, tools: ToolsByName, { continued: { open, decided } }: Operation): ToolSet | undefined {
  const names = open.flatMap(({ toolCallId, toolName, inner }) => {
    const isRun = inner !== undefined || decided.get(toolCallId)?.approved === true;
    return isRun && !Object.hasOwn(tools, toolName) ? [toolName] : [];
  });
  if (names.length === 0) return undefined;
  return Object.fromEntries(
    names.map((name) => [name, { inputSchema: sdk.jsonSchema({}), execute: () => refuseGone(name) }]),
  );
}

function refuseGone(name: string): never {
  throw new ServeError(500, `Tool ${name} no longer exists`);
}
