import { cut } from "../../core/cut.ts";
import { badRequest, ServeError } from "../../core/error.ts";
import { isModelError, ModelTimeout } from "../models/guarded-model.ts";
import { isPassingError } from "../models/passing-errors.ts";
import type { Sdk } from "../sdk.ts";

/** Converts an error of an agent call to one that is safe to send to the caller. `sdk` is undefined if it cannot be loaded. */
export function toServeError(sdk: Sdk | undefined, error: unknown): ServeError {
  if (error instanceof ServeError) return error;
  if (!sdk) return new ServeError(502, "Model call failed", { cause: error });
  if (sdk.RetryError.isInstance(error)) return toServeError(sdk, error.lastError);
  if (error instanceof ModelTimeout) return new ServeError(504, "Model call timed out", { cause: error });
  const rejected = clientErrors.map((name) => sdk[name]).find((type) => type.isInstance(error));
  if (rejected) return badRequest(`Invalid request: ${cut((error as Error).message)}`, error);
  if (isModelError(error) || sdk.AISDKError.isInstance(error)) {
    return new ServeError(502, "Model call failed", { cause: error, retry: isPassingError(sdk, error) });
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
 * Returns an error as text for the log, with its causes. A provider's error holds the whole prompt and answer, and the
 * query of its URL may hold a key: neither is in the text.
 */
export function toLogged(error: unknown, depth = 3): string {
  if (!(error instanceof Error)) return String(error).slice(0, maxText);
  const { statusCode, url } = error as { statusCode?: unknown; url?: unknown };
  const facts = [
    typeof statusCode === "number" ? `status ${statusCode}` : "",
    typeof url === "string" ? url.replace(/[?#].*$/s, "").slice(0, maxText) : "",
  ].filter((fact) => fact !== "");
  const text = `${error.name}: ${error.message.slice(0, maxText)}${facts.length > 0 ? ` (${facts.join(", ")})` : ""}`;
  if (depth === 0 || !(error.cause instanceof Error)) return text;
  const cause = toLogged(error.cause, depth - 1);
  return cause === text ? text : `${text}\ncaused by: ${cause}`;
}
const maxText = 2_000;
