import { cut } from "./cut.ts";

/** The options of a `ServeError`. */
export interface ServeErrorOptions extends ErrorOptions {
  /** Headers to add to the response, for example `["retry-after", "5"]`. @default [] */
  headers?: [name: string, value: string][];
  /**
   * The rule for a step that throws the error: true to retry the step as its `retry` says, false to fail at once.
   * @default false for a status from 400 to 499 other than 408, 425 and 429, otherwise true
   */
  retry?: boolean;
}

/**
 * An error whose status and message are sent to the caller. Any other error, except an `HTTPError` of h3, becomes a 500
 * without details.
 */
export class ServeError extends Error {
  override readonly name: string = "ServeError";
  /** The status of the response, from 400 to 599. */
  readonly status: number;
  /** Headers to add to the response. */
  readonly headers: [name: string, value: string][];
  /** True if a step that throws the error is retried. */
  readonly retry: boolean;

  constructor(status: number, message: string, options: ServeErrorOptions = {}) {
    super(message, options);
    if (!Number.isInteger(status) || status < 400 || status > 599)
      throw new RangeError(`ServeError: ${status} is not an error status (400–599)`);
    this.status = status;
    this.headers = options.headers ?? [];
    this.retry = options.retry ?? isPassing(status);
  }
}

/**
 * An agent's error, as it reaches the calling step. Its status and message are not sent to callers. `retry` is true for
 * a rate limit, a model failure, a time-out and a broken stream. It is false for a request that the model refuses, such
 * as one with a wrong key or a too long prompt.
 */
export class AgentError extends ServeError {
  override readonly name: string = "AgentError";
}

/** The fields of an error body beside `error`. */
export interface ErrorFields {
  /** The started execution that the error is about. */
  readonly executionId?: string | undefined;
  /** The text of a hidden error, or a model provider's message. Only `dev` sends it. */
  readonly detail?: string | undefined;
  /** The tool calls whose approval is pending. */
  readonly approvals?: readonly object[] | undefined;
}

/**
 * An error with fields for the response body. Authors cannot create one: only the server sets these fields. A hidden
 * error stays hidden.
 */
export class DetailedError extends ServeError {
  readonly fields: ErrorFields;

  constructor(error: unknown, fields: ErrorFields, headers: ServeError["headers"]) {
    const { status, message, headers: own, retry } = isShown(error) ? error : internalError;
    super(status, message, { cause: error, headers: [...own, ...headers], retry });
    this.fields = fields;
  }
}

/** Returns the `detail` of an error, for a stream in progress. */
export const toDetail = (error: unknown): string | undefined =>
  error instanceof DetailedError ? error.fields.detail : undefined;

/** Returns false for the status of a request that would be refused again. */
export const isPassing = (status: number): boolean => status < 400 || status > 499 || passing.has(status);
const passing = new Set([408, 425, 429]);

/** Returns true if a step that throws the error is retried. */
export const isRetryable = (error: unknown): boolean => !(error instanceof ServeError) || error.retry;

/** Returns true if the message is sent to callers. */
export const isShown = (error: unknown): error is ServeError =>
  error instanceof ServeError && !(error instanceof AgentError);

export const internalError: ServeError = new ServeError(500, "Internal server error");
export const badRequest = (message: string, cause?: unknown): ServeError => new ServeError(400, message, { cause });
/** The response to a disconnected client. It is never read. */
export const clientLeft = (): ServeError => new ServeError(499, "Client closed the request");
export const notFound = (message = "Not found"): ServeError => new ServeError(404, message);
/** A 503 with a `retry-after` header in seconds. */
export const busy = (message: string, seconds: number, cause?: unknown): ServeError =>
  new ServeError(503, message, { cause, headers: [["retry-after", String(seconds)]] });
export const shuttingDown = (headers: ServeErrorOptions["headers"] = []): ServeError =>
  new ServeError(503, "Server is shutting down", { headers: [["retry-after", "5"], ...headers] });

/** Max characters of an error message. A step may throw an error with its whole input in the message. */
export const maxOfMessage = 2_000;

/** Returns the message of any thrown value, cut to `maxOfMessage`. Never throws. */
export function toErrorMessage(error: unknown): string {
  try {
    return cut(String(error instanceof Error ? error.message : error), maxOfMessage);
  } catch {
    return "Unreadable error";
  }
}
