import type { Tool as SdkTool } from "ai";
import { toObject } from "../../core/json.ts";
import type { Runtime } from "../../engine/runtime.ts";
import type { AgentContext } from "../context.ts";
import { needsApproval } from "./approvals/approval-need.ts";
import type { Operation } from "./operation.ts";

// `Pick` makes a type of the interface: the SDK's type of a context is a record, to which an interface cannot be cast.
/** The `options.context` of an AI SDK `tool()`. A tool with a `contextSchema` finds it in `options.context.agentserve`. */
export type ToolContext = Pick<AgentContext, keyof AgentContext> & {
  /** Starts workflows, asks agents and sends events, for the user of the call. */
  readonly runtime: Runtime;
  /**
   * A key for services that must not act twice. It is the same if a crash makes the tool run again, and differs between
   * two calls.
   */
  readonly idempotencyKey: string;
};
type ToolOptions = Parameters<NonNullable<SdkTool["execute"]>>[1];

/** Returns the options of `execute` with our context. */
export const withToolContext = (tool: SdkTool, operation: Operation, options: ToolOptions): ToolOptions => {
  const { toolCallId } = options;
  const idempotencyKey = operation.toIdempotencyKey(toolCallId);
  const { approvedBy } = withApprover(operation, toolCallId);
  return { ...options, context: toContext(tool, operation, options.context, { approvedBy, idempotencyKey }) };
};

/** Returns the context of a tool call: with the user that has approved it. */
export function withApprover(operation: Operation, toolCallId: string): AgentContext {
  const { approved, by } = operation.outcomeOf(toolCallId) ?? {};
  return approved ? { ...operation.context, approvedBy: by } : operation.context;
}

/** Binds the functions of a tool that the SDK calls before `execute`: they find the context as well, without a key. */
export function bindFunctions(tool: SdkTool, name: string, operation: Operation): Partial<SdkTool> {
  const { description, needsApproval: own } = tool;
  const withContext = <T extends { context?: unknown }>(options: T): T => ({
    ...options,
    context: toContext(tool, operation, options.context),
  });
  // The casts are safe: the functions get the options of the SDK, with another context.
  return {
    ...(typeof description === "function" && {
      description: (options: never) => description(withContext(options as { context?: unknown }) as never),
    }),
    ...(own !== undefined && {
      needsApproval: (input: never, options: { toolCallId: string; context?: unknown }) =>
        needsApproval(operation, { name, toolCallId: options.toolCallId }, async () =>
          Boolean(typeof own === "function" ? await own(input, withContext(options) as never) : own),
        ),
    }),
  } as Partial<SdkTool>;
}

/** Returns the values for the SDK to validate against the `contextSchema` of tools: the context of the call. */
export function toToolsContext(tools: Readonly<Record<string, object>>, operation: Operation): Record<string, unknown> {
  const own = Object.entries(tools).filter(([, tool]) => hasSchema(tool));
  return Object.fromEntries(own.map(([name]) => [name, Object.fromEntries(operation.context.context)]));
}

function toContext(tool: SdkTool, { context, runtime }: Operation, own: unknown, more?: object): object {
  const ours = { ...context, runtime, ...more };
  return hasSchema(tool) ? { ...toObject(own), agentserve: ours } : ours;
}

const hasSchema = (tool: object): boolean => "contextSchema" in tool && tool.contextSchema !== undefined;
