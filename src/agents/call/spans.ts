import type { LanguageModelV4Usage } from "@ai-sdk/provider";
import type { Attributes, Span, SpanOptions, Tracer } from "../../core/trace.ts";
import type { AgentDefinition } from "../define.ts";

// Names follow the OpenTelemetry conventions for generative AI.

export function startAgentSpan(
  tracer: Tracer,
  { id, name }: AgentDefinition,
  { userId, conversationId }: { userId?: string | undefined; conversationId?: string | undefined },
): Span | undefined {
  return tracer.start(() => ({
    name: `invoke_agent ${id}`,
    kind: "internal",
    attributes: {
      "entity.type": "agent",
      "entity.id": id,
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.id": id,
      "gen_ai.agent.name": name,
      "gen_ai.conversation.id": conversationId,
      "user.id": userId,
    },
  }));
}

export const toModelSpan = (parent: Span, model: { provider: string; modelId: string }): SpanOptions => ({
  name: `chat ${model.modelId}`,
  kind: "client",
  parent,
  attributes: {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": model.provider,
    "gen_ai.request.model": model.modelId,
  },
});

export const toToolSpan = (parent: Span, name: string, toolCallId: string): SpanOptions => ({
  name: `execute_tool ${name}`,
  kind: "internal",
  parent,
  attributes: {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": name,
    "gen_ai.tool.call.id": toolCallId,
  },
});

/** Returns the token counts of one model call. */
export const fromModelUsage = ({ inputTokens, outputTokens }: LanguageModelV4Usage): Attributes =>
  toUsageAttributes(inputTokens.total, outputTokens.total);

export const toUsageAttributes = (input: number | undefined, output: number | undefined): Attributes => ({
  "gen_ai.usage.input_tokens": input,
  "gen_ai.usage.output_tokens": output,
});
