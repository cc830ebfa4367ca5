import { isPassing } from "../../core/error.ts";
import type { Sdk } from "../sdk.ts";
import { toErrorFacts, type ErrorFacts } from "./error-facts.ts";

/**
 * The kind of a model's error. The same call may succeed later after a `rate-limit` or a `failure`: of the provider, of the
 * connection, or in the middle of a stream. A `refusal` is any other request that the provider does not accept.
 */
export type ModelErrorKind = "rate-limit" | "credentials" | "too-long" | "refusal" | "failure";

/** Returns the kind of an error that a model, its provider or the AI SDK has thrown, or sent in a stream. */
export function toErrorKind(sdk: Sdk, error: unknown): ModelErrorKind {
  if (sdk.LoadAPIKeyError.isInstance(error)) return "credentials";
  if (sdk.LoadSettingError.isInstance(error) || sdk.NoSuchModelError.isInstance(error)) return "refusal";
  const facts = toErrorFacts(error);
  const { status } = facts;
  if (status === undefined) return findWords(facts) ?? "failure";
  const known = byStatus[status];
  if (known) return known;
  if (isPassing(status)) return "failure";
  return (isAboutRequest.has(status) && findWords(facts)) || "refusal";
}

const byStatus: Readonly<Record<number, ModelErrorKind>> = {
  401: "credentials",
  403: "credentials",
  413: "too-long",
  429: "rate-limit",
};
/** The statuses of a request that the provider does not accept, for a reason that only the body states. */
const isAboutRequest = new Set([400, 422]);

function findWords({ names, texts }: ErrorFacts): ModelErrorKind | undefined {
  const isNamed = ([, known]: Words): boolean => names.some((name) => known.has(name.toLowerCase()));
  const isWritten = ([, , known]: Words): boolean => known !== undefined && texts.some((text) => known.test(text));
  // A name is more exact than a text, and every kind is more exact than a refusal, the last row.
  return (table.slice(0, -1).find(isNamed) ?? table.find(isWritten) ?? table.find(isNamed))?.[0];
}

type Words = readonly [kind: ModelErrorKind, names: ReadonlySet<string>, texts?: RegExp];

/** The codes of providers in lower case. Some providers send no code for an error: then its text. */
const table: readonly Words[] = [
  [
    "too-long",
    new Set([
      "context_length_exceeded", // OpenAI, Azure, Groq, Together, Fireworks, DeepSeek, vLLM
      "string_above_max_length", // OpenAI
      "request_too_large", // Anthropic
      "model_max_prompt_tokens_exceeded", // GitHub
      "exceed_context_size_error", // llama.cpp
      "contextwindowexceedederror", // LiteLLM
    ]),
    new RegExp(
      [
        "prompt is too long", // Anthropic, also on Bedrock and Vertex
        "exceed context limit", // Anthropic, if prompt and max output tokens together are too many
        "exceeds the maximum number of tokens", // Google
        "input is too long", // Bedrock
        "too many input tokens", // Bedrock
        "exceeds the context window", // OpenAI
        "maximum context length", // Mistral, DeepSeek, OpenRouter, vLLM
        "maximum prompt length", // xAI
        "reduce the length of the messages", // Groq, Cerebras
        "too many tokens: ", // Cohere
        "exceeded model token limit", // Moonshot
        "context window exceeds limit", // MiniMax
        "range of input length should be", // Alibaba
        "prompt exceeds max length", // Z.ai
        "exceeds the available context size", // llama.cpp
        "greater than the context length", // LM Studio
      ].join("|"),
      "i",
    ),
  ],
  [
    "credentials",
    new Set([
      "invalid_api_key", // OpenAI, Azure, Groq
      "authentication_error", // Anthropic, the AI gateway
      "permission_error", // Anthropic
      "forbidden", // the AI gateway
      "permission_denied", // Google
      "unauthenticated", // Google
      "accessdeniedexception", // Bedrock
      "unrecognizedclientexception", // Bedrock
      "invalid_authentication_error", // Moonshot
    ]),
    // Google and xAI refuse a wrong key with 400.
    /api key not valid|api key expired|incorrect api key/i,
  ],
  [
    "rate-limit",
    new Set([
      "rate_limit_exceeded", // OpenAI, Azure, Groq, the AI gateway
      "insufficient_quota", // OpenAI
      "rate_limit_error", // Anthropic
      "resource_exhausted", // Google
      "throttlingexception", // Bedrock
      "rate_limited", // Mistral
      "rate_limit_reached_error", // Moonshot
    ]),
  ],
  [
    "refusal",
    new Set([
      "invalid_request_error", // Anthropic, OpenAI
      "billing_error", // Anthropic
      "not_found_error", // Anthropic
      "model_not_found", // OpenAI, the AI gateway
      "invalid_argument", // Google
      "not_found", // Google
      "failed_precondition", // Google
      "validationexception", // Bedrock
    ]),
  ],
];
