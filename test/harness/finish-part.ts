import type { LanguageModelV4FinishReason, LanguageModelV4StreamPart } from "@ai-sdk/provider";

/** The last part of a model's answer, which has taken one token in and one out. */
export function finishPart(unified: LanguageModelV4FinishReason["unified"] = "stop", raw: string = unified) {
  const inputTokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 };
  const outputTokens = { total: 1, text: 1, reasoning: 0 };
  const usage = { inputTokens, outputTokens };
  return { type: "finish", finishReason: { unified, raw }, usage } satisfies LanguageModelV4StreamPart;
}
