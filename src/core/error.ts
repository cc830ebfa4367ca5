import { cut } from "./cut.ts";

/** The options of a `ServeError`. */
export interface ServeErrorOptions extends ErrorOptions {
  /** Headers to add to the response, for example `["retry-after", "5"]`. @default [] */
  headers?: [name: string, value: string][];
}

/**
 * An error whose status and message are sent to the caller. Any other error, except an `HTTPError` of h3, becomes a 500
 * without details.
 */
export class ServeError extends Error {
  override readonly name = "ServeError";
  /** The status of the response, from 400 to 599. */
  readonly status: number;
  /** Headers to add to the response. */
  readonly headers: [name: string, value: string][];

  constructor(status: number, message: string, options: ServeErrorOptions = {}) {
    super(message, options);
    if (!(status >= 400 && status <= 599))
      throw new RangeError(`ServeError: ${status} is not an error status (400–599)`);
    this.status = status;
    this.headers = options.headers ?? [];
  }
}

export const badRequest = (message: string, cause?: unknown): ServeError => new ServeError(400, message, { cause });
/** The response to a client that has closed its connection. It is never read. */
export const clientLeft = (): ServeError => new ServeError(499, "Client closed the request");
export const notFound = (message = "Not found"): ServeError => new ServeError(404, message);
/** A 503 with a `retry-after` header in seconds. */
export const busy = (message: string, seconds: number, cause?: unknown): ServeError =>
  new ServeError(503, message, { cause, headers: [["retry-after", String(seconds)]] });
export const shuttingDown = (headers: ServeErrorOptions["headers"] = []): ServeError =>
  new ServeError(503, "Server is shutting down", { headers: [["retry-after", "5"], ...headers] });

/** The longest message of an error, in characters. A step may throw an error with its whole input in the message. */
export const mostOfMessage = 2_000;

/** Returns the message of any thrown value, cut to `mostOfMessage`. Never throws. */
export function toErrorMessage(error: unknown): string {
  try {
    return cut(String(error instanceof Error ? error.message : error), mostOfMessage);
  } catch {
    return "Unreadable error";
  }
}
