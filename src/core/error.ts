export interface ServeErrorOptions extends ErrorOptions {
  /** Headers of the response, for example `["retry-after", "5"]`. */
  headers?: [name: string, value: string][];
}

/** An error whose status and message may be shown to the caller. Anything else that is thrown becomes a bare 500. */
export class ServeError extends Error {
  override readonly name = "ServeError";
  readonly status: number;
  readonly headers: [name: string, value: string][];

  constructor(status: number, message: string, options: ServeErrorOptions = {}) {
    super(message, options);
    if (!(status >= 400 && status <= 599)) throw new RangeError(`ServeError: ${status} is no status of an error`);
    this.status = status;
    this.headers = options.headers ?? [];
  }
}

export const badRequest = (message: string, cause?: unknown): ServeError => new ServeError(400, message, { cause });
/** The answer to a client that has closed its connection; it is never read. */
export const clientLeft = (): ServeError => new ServeError(499, "Client closed the request");
export const notFound = (message = "Not found"): ServeError => new ServeError(404, message);
/** 503 with the number of seconds after which the caller may try again. */
export const busy = (message: string, seconds: number, cause?: unknown): ServeError =>
  new ServeError(503, message, { cause, headers: [["retry-after", String(seconds)]] });
export const shuttingDown = (headers: ServeErrorOptions["headers"] = []): ServeError =>
  new ServeError(503, "Server is shutting down", { headers });

/** What an error says, as a text. Whatever was thrown, this does not throw. */
export function toErrorMessage(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return "An error that cannot be read";
  }
}
