import type { LanguageModelV4ToolCall } from "@ai-sdk/provider";
import type { ToolSet } from "ai";
import { attempt } from "../../core/attempt.ts";
import type { SdkPart } from "../messages/answer-parts.ts";
import type { Sdk } from "../sdk.ts";

/** A tool call whose input is parsed. */
export type ParsedCall = Extract<SdkPart, { type: "tool-call" }>;

/**
 * Parses a call that the provider runs itself, so that it is shown at once: its result, and the words about that, follow in the
 * same answer. Returns undefined for other calls, and for those whose input is not valid: the SDK parses them later.
 */
export async function parseProviderCall(
  sdk: Sdk,
  tools: ToolSet,
  call: LanguageModelV4ToolCall,
): Promise<ParsedCall | undefined> {
  const { toolCallId, toolName, providerMetadata, dynamic } = call;
  const tool = Object.hasOwn(tools, toolName) ? tools[toolName] : undefined;
  if (!call.providerExecuted || (!tool && !dynamic)) return undefined;
  const text = call.input.trim();
  // The SDK refuses an input that could change a prototype.
  if (text.includes("__proto__") || text.includes("constructor")) return undefined;
  const parsed = text === "" ? { value: {} } : attempt(() => ({ value: JSON.parse(text) as unknown }));
  const result = parsed && tool ? await sdk.asSchema(tool.inputSchema).validate?.(parsed.value) : undefined;
  if (!parsed || result?.success === false) return undefined;
  const input = result ? result.value : parsed.value;
  const { title, metadata } = (tool ?? {}) as { title?: string; metadata?: object };
  // The cast is safe: these are the fields of the SDK's own calls.
  return {
    type: "tool-call",
    toolCallId,
    toolName,
    input,
    providerExecuted: true,
    providerMetadata,
    ...(metadata && { toolMetadata: metadata }),
    ...((!tool || tool.type === "dynamic") && { dynamic: true }),
    ...(tool && { title }),
  } as ParsedCall;
}
