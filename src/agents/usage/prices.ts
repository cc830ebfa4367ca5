import type { UsageCounts } from "../../engine/contract/usage.ts";

/** The prices of models by their names, such as `"openai/gpt-5"`. */
export type Prices = Readonly<Record<string, ModelPrice>>;

/** The prices of a model for a million tokens, in any currency. */
export interface ModelPrice {
  readonly input: number;
  /** Reasoning is a part of the output. */
  readonly output: number;
  /** The price of input that is read from a cache. @default `input` */
  readonly cachedInput?: number | undefined;
}

/** Returns true for a provider and the id of a model, with a slash between them. */
export const isModelName = (name: unknown): boolean => typeof name === "string" && /^[^/]+\/./s.test(name);
export const modelNameRule = 'a provider and a model, such as "openai/gpt-5"';

/** Returns the cost of some calls. Undefined if a model has no price. */
export function toCost(models: ReadonlyMap<string, UsageCounts>, prices: Prices): number | undefined {
  let cost = 0;
  for (const [model, { inputTokens, outputTokens, cachedInputTokens }] of models) {
    const price = findPrice(model, prices);
    if (!price) return undefined;
    const { input, output, cachedInput = input } = price;
    const cached = Math.min(cachedInputTokens, inputTokens);
    cost += (inputTokens - cached) * input + cached * cachedInput + outputTokens * output;
  }
  return Number((cost / perTokens).toFixed(decimals));
}

const perTokens = 1_000_000;
/** A token may cost less than a millionth. */
const decimals = 9;

/**
 * Finds the price of a model by its name in the AI SDK. The provider may have the kind of its API after a dot, which a price
 * can leave out: `openai/gpt-5` is the price of `openai.responses/gpt-5`.
 */
function findPrice(model: string, prices: Prices): ModelPrice | undefined {
  const [, provider = "", rest = ""] = /^([^/]*)(\/.*)$/s.exec(model) ?? [];
  const short = (provider.split(".")[0] ?? "") + rest;
  const name = [model, short].find((one) => Object.hasOwn(prices, one));
  return name === undefined ? undefined : prices[name];
}
