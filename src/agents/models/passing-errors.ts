import { isPassing } from "../../core/error.ts";
import type { Sdk } from "../sdk.ts";

/**
 * Returns true if the same call of the model may succeed later: after a rate limit, a failure of the provider or a broken
 * stream. Returns false if the provider refuses the request or its key.
 */
export function isPassingError(sdk: Sdk, error: unknown): boolean {
  if (setUpErrors.some((name) => sdk[name].isInstance(error))) return false;
  for (let [found, depth] = [error, 0]; isObject(found) && depth < deepestCause; found = found["cause"], depth++) {
    const { statusCode, code, type, status } = found;
    if (typeof statusCode === "number") return isPassing(statusCode);
    if (typeof code === "number") return isPassing(code);
    if ([code, type, status].some((name) => refusals.has(name))) return false;
  }
  return true;
}

/** The errors of a model that is not set up. */
const setUpErrors = ["LoadAPIKeyError", "LoadSettingError", "NoSuchModelError"] as const;

/** The `code`, `type` or `status` of an error that a provider sends inside a stream, which has no status of HTTP. */
const refusals = new Set<unknown>([
  // OpenAI
  "context_length_exceeded",
  "invalid_api_key",
  // Anthropic, and partly OpenAI
  "authentication_error",
  "billing_error",
  "invalid_request_error",
  "not_found_error",
  "permission_error",
  "request_too_large",
  // Google
  "INVALID_ARGUMENT",
  "PERMISSION_DENIED",
  "UNAUTHENTICATED",
]);

const deepestCause = 4;

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
