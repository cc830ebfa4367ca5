import type { LanguageModelV4Usage } from "@ai-sdk/provider";
import type { CallContext } from "../../core/caller.ts";
import { toDay, type UsageRow } from "../../engine/contract/usage.ts";
import { toCount } from "../call/model-call.ts";

/** A completed model call, with its agent and user. */
export interface CountedCall {
  readonly agentId: string;
  readonly callContext: Pick<CallContext, "userId" | "conversationId">;
  /** The model, as the AI SDK names it. */
  readonly model: { readonly provider: string; readonly modelId: string };
  readonly usage: LanguageModelV4Usage;
  /** The end time. */
  readonly at: number;
}

export function toUsageRow({ agentId, callContext, model, usage, at }: CountedCall): UsageRow {
  const { userId, conversationId } = callContext;
  const inputTokens = toTokens(usage.inputTokens.total);
  const outputTokens = toTokens(usage.outputTokens.total);
  return {
    agentId,
    userId,
    conversationId,
    day: toDay(at),
    model: `${model.provider}/${model.modelId}`,
    calls: 1,
    inputTokens,
    outputTokens,
    totalTokens: inputTokens + outputTokens,
    reasoningTokens: toTokens(usage.outputTokens.reasoning),
    cachedInputTokens: toTokens(usage.inputTokens.cacheRead),
  };
}

/** More than any call has. Sums stay exact, and fit the store. */
const maxTokens = 1_000_000_000;
const toTokens = (tokens: unknown): number => Math.min(maxTokens, Math.round(toCount(tokens)));
