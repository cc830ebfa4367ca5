import { badRequest, ServeError } from "../../core/error.ts";
import { isModelError, ModelTimeout } from "../models/guarded-model.ts";
import type { Sdk } from "../sdk.ts";

/** Converts an error of an agent call to one that is safe to send to the caller. */
export function toServeError(sdk: Sdk, error: unknown): ServeError {
  if (error instanceof ServeError) return error;
  if (sdk.RetryError.isInstance(error)) return toServeError(sdk, error.lastError);
  if (error instanceof ModelTimeout) return new ServeError(504, "Model call timed out", { cause: error });
  const rejected = clientErrors.map((name) => sdk[name]).find((type) => type.isInstance(error));
  if (rejected) return badRequest(`Invalid request: ${(error as Error).message}`, error);
  if (isModelError(error) || sdk.AISDKError.isInstance(error)) {
    return new ServeError(502, "Model call failed", { cause: error });
  }
  return new ServeError(500, "Failed to execute agent", { cause: error });
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
 * Returns the loggable fields of an error. A provider's error holds the whole prompt and answer, and the query of its
 * URL may hold a key.
 */
export function toLogged(error: unknown, depth = 3): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: String(error).slice(0, maxText) };
  const { statusCode, url } = error as { statusCode?: unknown; url?: unknown };
  return {
    name: error.name,
    message: error.message.slice(0, maxText),
    statusCode,
    url: typeof url === "string" ? url.replace(/[?#].*$/s, "") : undefined,
    ...(error.cause instanceof Error && depth > 0 && { cause: toLogged(error.cause, depth - 1) }),
  };
}
const maxText = 2_000;
