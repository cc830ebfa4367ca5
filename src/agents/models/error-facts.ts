import { tryParseJson } from "../../core/json.ts";

/** The statements of a provider's error, collected from its response, from a stream part, and from their causes. */
export interface ErrorFacts {
  /** The status of the response, or the number from 400 to 599 that the provider sends as its code. */
  readonly status: number | undefined;
  /** Names of the error: its `code`, `type`, `status` and `name`. */
  readonly names: readonly string[];
  /** The texts that the provider wrote. Messages of the AI SDK about a response are not among them: they quote answers. */
  readonly texts: readonly string[];
  /** The headers of the response. */
  readonly headers: Readonly<Record<string, unknown>>;
}

/** Collects the facts of an error. Its own facts come before the facts of its causes. */
export function toErrorFacts(error: unknown): ErrorFacts {
  const statuses: number[] = [];
  const names: string[] = [];
  const texts: string[] = [];
  let headers: Readonly<Record<string, unknown>> | undefined;
  const nodes: unknown[] = [error];
  for (let index = 0; index < nodes.length && index < maxNodes; index++) {
    const node = nodes[index];
    if (typeof node === "string") texts.push(node);
    if (!isObject(node)) continue;
    const { statusCode, status, code, type, name, message, cause, error: inner, responseHeaders } = node;
    const found = [statusCode, status, code].map(toStatus).find((value) => value !== undefined);
    if (found !== undefined) statuses.push(found);
    names.push(...[code, type, status, name].filter((value) => typeof value === "string"));
    if (typeof message === "string" && (found !== undefined || !(node instanceof Error))) texts.push(message);
    if (isObject(responseHeaders)) headers ??= responseHeaders;
    nodes.push(...toBody(node, found), inner, cause);
  }
  return { status: statuses[0], names, texts, headers: headers ?? {} };
}

const maxNodes = 16;

/** Returns the body of an error response. Of a response without an error status, which may be an answer, only `error`. */
function toBody({ data, responseBody }: Record<string, unknown>, status: number | undefined): unknown[] {
  const isShort = typeof responseBody === "string" && responseBody.length <= maxOfBody;
  const body = data ?? (isShort ? tryParseJson(responseBody) : undefined);
  if (!isObject(body)) return [];
  return status === undefined ? [body["error"]] : [body];
}

/** The longest body that is parsed, in characters. */
const maxOfBody = 65_536;

/** Returns an error status. Some providers send it as text. */
function toStatus(value: unknown): number | undefined {
  const number = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && number >= 400 && number <= 599 ? number : undefined;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
