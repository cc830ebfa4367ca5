import { STATUS_CODES } from "node:http";
import { FastResponse } from "srvx";
import { cut } from "../core/cut.ts";
import { mostOfMessage, ServeError } from "../core/error.ts";

export type HeaderPairs = [name: string, value: string][];

/** The return value of a handler whose response has headers or a status other than 200. */
export class Reply {
  readonly data: unknown;
  readonly status: number;
  readonly headers: HeaderPairs;

  constructor(data: unknown, init: { status?: number; headers?: HeaderPairs } = {}) {
    this.data = data;
    this.status = init.status ?? 200;
    this.headers = init.headers ?? [];
  }
}

/** A JSON response, not yet a `Response`: a Node host writes it in one call, other hosts call `toResponse()`. */
export class Envelope {
  readonly status: number;
  readonly headers: HeaderPairs;
  readonly text: string;

  constructor(status: number, headers: HeaderPairs, text: string) {
    this.status = status;
    this.headers = headers;
    this.text = text;
  }

  toResponse(): Response {
    const { text, status, headers } = this;
    return new FastResponse(text, { status, statusText: STATUS_CODES[status], headers });
  }
}
export type Answer = Envelope | Response;

const json: HeaderPairs = [["content-type", "application/json"]];

/** Wraps the return value of a handler in the envelope. */
export function toEnvelope(value: unknown, extra: HeaderPairs): Envelope {
  if (!(value instanceof Reply)) return new Envelope(200, json.concat(extra), successBody(value));
  return new Envelope(value.status, json.concat(value.headers, extra), successBody(value.data));
}

/** Converts an error to a response. No other place does. `report` gets the errors that are hidden from the caller. */
export function toErrorEnvelope(error: unknown, extra: HeaderPairs, report: (error: unknown) => void): Envelope {
  const shown = toServeError(error);
  if (!shown) report(isWrapped(error) ? error.cause : error);
  const { status, message, headers } = shown ?? internalError;
  // Our own messages are shorter. An error of the host's code may have any length.
  return new Envelope(status, json.concat(headers, extra), errorBody(cut(message, mostOfMessage)));
}

/** A response outside the envelope: a document or a page. */
export function toPage(text: string, type: string): Response {
  return new FastResponse(text, { headers: { "content-type": type } });
}

export const toWebResponse = (answer: Answer): Response => (answer instanceof Envelope ? answer.toResponse() : answer);
const errorBody = (message: string): string => JSON.stringify({ success: false, error: message });
const successBody = (data: unknown): string => JSON.stringify({ success: true, data: data ?? null });

const internalError = new ServeError(500, "Internal server error");

/** True for an unknown error that h3 has wrapped. */
function isWrapped(error: unknown): error is Error {
  return error instanceof Error && "unhandled" in error && error.unhandled === true && error.cause instanceof Error;
}

/** Returns the error to show to the caller, or undefined if it must stay hidden. */
function toServeError(error: unknown): ServeError | undefined {
  if (error instanceof ServeError) return error;
  // h3's HTTPError and srvx's BodyTooLargeError have a name and a status in common, but not a class.
  if (!(error instanceof Error) || error.name !== "HTTPError") return;
  const { status, unhandled, cause, headers } = error as Error & {
    status: number;
    unhandled?: boolean;
    headers?: Headers;
  };
  if (unhandled) return toServeError(cause);
  if (status === 413) return new ServeError(413, "Request body too large");
  // Some of h3's own errors have no message.
  const isBare = error.message === `HTTPError ${status}`;
  const message = isBare ? (status === 404 ? "Not found" : (STATUS_CODES[status] ?? error.message)) : error.message;
  return new ServeError(status, message, { headers: [...(headers ?? [])] });
}

export function withHeaders(response: Response, extra: HeaderPairs): Response {
  try {
    for (const [name, value] of extra) add(response.headers, name, value);
    return response;
  } catch {
    // The headers of Response.redirect() and of a fetch() result are immutable.
    const copy = new Response(response.body, response);
    for (const [name, value] of extra) add(copy.headers, name, value);
    return copy;
  }
}

function add(headers: Headers, name: string, value: string): void {
  if (name === "vary") headers.append(name, value);
  else headers.set(name, value);
}
