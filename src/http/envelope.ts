import { STATUS_CODES, type ServerResponse } from "node:http";
import { FastResponse } from "srvx";
import { cut } from "../core/cut.ts";
import { DetailedError, internalError, isShown, maxOfMessage, ServeError, type ErrorFields } from "../core/error.ts";

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

/** The body of a response: text, or the bytes of a compressed file. */
type Body = string | Uint8Array<ArrayBuffer>;

/** The return value of a handler whose response is outside the envelope: a document, a page or a file. */
export class Page {
  readonly text: Body;
  readonly headers: HeaderPairs;
  /** 304 if the client has the page already. The text is empty then. */
  readonly status: 200 | 304;

  constructor(text: Body, headers: Readonly<Record<string, string>>, status: Page["status"] = 200) {
    this.text = text;
    this.headers = Object.entries(headers);
    this.status = status;
  }
}

/**
 * A response without a `Response` object. A Node host calls `send()`, which costs less. Other hosts call
 * `toResponse()`.
 */
export abstract class DirectAnswer {
  abstract readonly status: number;
  abstract readonly headers: HeaderPairs;
  abstract toResponse(): Response;
  abstract send(res: ServerResponse): void;
}

/** A response with a whole body. */
export class Envelope<Text extends Body = string> extends DirectAnswer {
  readonly status: number;
  readonly headers: HeaderPairs;
  readonly text: Text;

  constructor(status: number, headers: HeaderPairs, text: Text) {
    super();
    this.status = status;
    this.headers = headers;
    this.text = text;
  }

  toResponse(): Response {
    const { text, status, headers } = this;
    // A 304 with a body, even an empty one, is an error.
    return createResponse(status === 304 ? null : text, { status, statusText: STATUS_CODES[status], headers });
  }

  send(res: ServerResponse): void {
    const { status, headers, text } = this;
    // A 304 would need the page's length.
    const raw = status === 304 ? [] : ["content-length", String(Buffer.byteLength(text))];
    for (const [name, value] of headers) raw.push(name, value);
    // A single end(text): write() and then end() would be two chunks, and so a writev, per response.
    res.writeHead(status, raw).end(text);
  }
}
export type Answer = DirectAnswer | Response;

const json: HeaderPairs = [["content-type", "application/json"]];

/** Wraps the return value of a handler in the envelope. A page has no envelope around it. */
export function toEnvelope(value: unknown, extra: HeaderPairs): Envelope<Body> {
  if (value instanceof Page) return new Envelope(value.status, override(value.headers, extra), value.text);
  if (!(value instanceof Reply)) return new Envelope(200, json.concat(extra), successBody(value));
  return new Envelope(value.status, json.concat(value.headers, extra), successBody(value.data));
}

/** Converts an error to a response. No other place does. `report` gets the errors that are hidden from the caller. */
export function toErrorEnvelope(error: unknown, extra: HeaderPairs, report: (error: unknown) => void): Envelope {
  const { cause, fields } = error instanceof DetailedError ? error : { cause: error };
  if (!toServeError(cause)) report(isWrapped(cause) ? cause.cause : cause);
  const { status, message, headers } = toServeError(error) ?? internalError;
  // Our own messages are shorter. An error of the host's code may have any length.
  return new Envelope(status, json.concat(headers, extra), errorBody(cut(message, maxOfMessage), fields));
}

export const toPage = (text: string, type: string): Page => new Page(text, { "content-type": type });

/** Returns a response that the host accepts. */
export function toWebResponse(answer: Answer): Response {
  if (answer instanceof DirectAnswer) return answer.toResponse();
  return isGlobal(answer) ? answer : new Response(answer.body, answer);
}

/** Creates a response of a class that the host accepts. */
export function createResponse(body: ConstructorParameters<typeof Response>[0], init: ResponseInit): Response {
  const Class = isGlobal(FastResponse.prototype) ? FastResponse : Response;
  return new Class(body, init);
}

/**
 * Returns true for an instance of the global `Response`. Hosts, h3 and crossws accept no other. srvx inherits its class
 * from Node's, which @hono/node-server replaces by its own.
 */
const isGlobal = (value: object): boolean => value instanceof Response;

/** Returns true for a `Response` of any class, such as Node's, srvx's or a host's. All of them inherit this tag. */
export const isResponse = (value: unknown): value is Response =>
  Object.prototype.toString.call(value) === "[object Response]";

const errorBody = (message: string, fields?: ErrorFields): string =>
  JSON.stringify({ success: false, error: message, ...fields });
const successBody = (data: unknown): string => JSON.stringify({ success: true, data: data ?? null });

/** True for an unknown error that h3 has wrapped. */
function isWrapped(error: unknown): error is Error {
  return error instanceof Error && "unhandled" in error && error.unhandled === true && error.cause instanceof Error;
}

/** Returns the error to show to the caller. Undefined if it must stay hidden. */
function toServeError(error: unknown): ServeError | undefined {
  if (isShown(error)) return error;
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

/** Returns the headers of a page without those that the server sets itself. Each `vary` counts. */
function override(own: HeaderPairs, extra: HeaderPairs): HeaderPairs {
  return own.filter(([name]) => name === "vary" || !extra.some(([other]) => other === name)).concat(extra);
}

function add(headers: Headers, name: string, value: string): void {
  if (name === "vary") headers.append(name, value);
  else headers.set(name, value);
}
