import { cut } from "../../core/cut.ts";
import { badRequest, ServeError, type ServeErrorOptions } from "../../core/error.ts";
import { toErrorFacts } from "../models/error-facts.ts";
import { toErrorKind, type ModelErrorKind } from "../models/error-kinds.ts";
import { isModelError, ModelTimeout } from "../models/model-failure.ts";
import { toProviderMessage, withoutSecrets } from "../models/provider-message.ts";
import { toRetryAfter } from "../models/retry-after.ts";
import type { Sdk } from "../sdk.ts";

/** An error of a model that is safe to send to the caller. Its cause is text for the log. */
export class ModelError extends ServeError {
  /** The provider's own message. Undefined if it sent none in time. */
  readonly detail: string | undefined;

  constructor(status: number, message: string, cause: unknown, options: ServeErrorOptions = {}) {
    super(status, message, { ...options, cause: toLogged(cause) });
    this.detail = cause instanceof ModelTimeout ? undefined : toProviderMessage(cause);
  }
}

/**
 * Converts an error of an agent call to one that is safe to send to the caller. `sdk` is undefined if it cannot be loaded.
 * `now` is the time of the error.
 */
export function toServeError(sdk: Sdk | undefined, error: unknown, now: number): ServeError {
  if (error instanceof ServeError) return error;
  if (!sdk) return new ModelError(502, "Model call failed", error);
  if (sdk.RetryError.isInstance(error)) return toServeError(sdk, error.lastError, now);
  if (error instanceof ModelTimeout) return new ModelError(504, "Model call timed out", error);
  const rejected = clientErrors.map((name) => sdk[name]).find((type) => type.isInstance(error));
  if (rejected) return badRequest(`Invalid request: ${cut((error as Error).message)}`, error);
  if (isModelError(error) || sdk.AISDKError.isInstance(error)) {
    const kind = toErrorKind(sdk, error);
    const { status, message, retry } = responses[kind];
    return new ModelError(status, message, error, {
      retry,
      headers: kind === "rate-limit" ? toHeaders(error, now) : [],
    });
  }
  return new ServeError(500, "Failed to execute agent", { cause: error });
}

/** Returns the error text of one model call. With `showDetail`, it is the provider's own message. */
export function toCallError(error: unknown, showDetail: boolean): string {
  if (error instanceof ModelTimeout || showDetail) return toProviderMessage(error);
  return "Model call failed";
}

const responses: Readonly<Record<ModelErrorKind, { status: number; message: string; retry: boolean }>> = {
  "rate-limit": { status: 429, message: "Model rate limit reached", retry: true },
  credentials: { status: 502, message: "Model rejected the credentials", retry: false },
  "too-long": { status: 400, message: "The conversation is too long for the model", retry: false },
  refusal: { status: 502, message: "Model call failed", retry: false },
  failure: { status: 502, message: "Model call failed", retry: true },
};

function toHeaders(error: unknown, now: number): ServeError["headers"] {
  const seconds = toRetryAfter(toErrorFacts(error).headers, now);
  return seconds === undefined ? [] : [["retry-after", String(seconds)]];
}

/** The errors with which the SDK or a provider's package rejects a request before it is sent to the model. */
const clientErrors = [
  "InvalidArgumentError",
  "InvalidPromptError",
  "InvalidDataContentError",
  "InvalidMessageRoleError",
  "MessageConversionError",
  "MissingToolResultsError",
  "UnsupportedFunctionalityError",
] as const;

/**
 * Returns an error as text for the log, with its causes. A provider's error holds the whole prompt and answer, and the
 * query of a URL or its message may hold a key: neither is in the text.
 */
function toLogged(error: unknown, depth = 3): string {
  if (!(error instanceof Error)) return withoutSecrets(String(error).slice(0, maxText));
  const { statusCode, url } = error as { statusCode?: unknown; url?: unknown };
  const facts = [
    typeof statusCode === "number" ? `status ${statusCode}` : "",
    typeof url === "string" ? url.replace(/[?#].*$/s, "").slice(0, maxText) : "",
  ].filter((fact) => fact !== "");
  const text = `${error.name}: ${withoutSecrets(error.message.slice(0, maxText))}${facts.length > 0 ? ` (${facts.join(", ")})` : ""}`;
  if (depth === 0 || !(error.cause instanceof Error)) return text;
  const cause = toLogged(error.cause, depth - 1);
  return cause === text ? text : `${text}\ncaused by: ${cause}`;
}
const maxText = 2_000;
