import type { LanguageModelUsage } from "ai";
import type { Usage } from "../shapes.ts";

/** Converts token counts. A count that the provider does not report is `null`. */
export function toUsage(usage: LanguageModelUsage): Usage {
  const { inputTokens, outputTokens, totalTokens, inputTokenDetails, outputTokenDetails } = usage;
  return {
    inputTokens: inputTokens ?? null,
    outputTokens: outputTokens ?? null,
    totalTokens: totalTokens ?? null,
    reasoningTokens: outputTokenDetails.reasoningTokens,
    cachedInputTokens: inputTokenDetails.cacheReadTokens,
  };
}

/** The usage of an answer for which no model was asked. */
export const noUsage: LanguageModelUsage = {
  inputTokens: 0,
  outputTokens: 0,
  totalTokens: 0,
  inputTokenDetails: { noCacheTokens: undefined, cacheReadTokens: undefined, cacheWriteTokens: undefined },
  outputTokenDetails: { textTokens: undefined, reasoningTokens: undefined },
};

/** Adds token counts. One that is not known does not count. */
export function addUsage(one: Usage, other: Usage): Usage {
  const names = Object.keys({ ...one, ...other }) as (keyof Usage)[];
  const sums = names.map((name) => [name, add(one[name], other[name])]);
  return Object.fromEntries(sums) as unknown as Usage; // the same names
}
const add = (one: number | null | undefined, other: number | null | undefined): number | null | undefined =>
  one == null || other == null ? (one ?? other) : one + other;
