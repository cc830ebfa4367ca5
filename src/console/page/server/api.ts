/** The relative start of every server URL. */
const base = document.documentElement.dataset.base ?? "";
export const toUrl = (to: string): string => base + to.replace(/^\//, "");
/** The whole URL of a path, for commands that are copied. */
export const toAbsoluteUrl = (to: string): string => new URL(toUrl(to), location.href).href;

/** An answer that is not a success. Status 0: the server could not be reached. */
export class ApiError extends Error {
  readonly status: number;
  /** The fields beside `error`, such as `executionId`. */
  readonly fields: Readonly<Record<string, unknown>>;

  constructor(status: number, message: string, fields: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.status = status;
    this.fields = fields;
  }
}

let token: string | undefined;
export function useToken(next: string | undefined): void {
  token = next;
}
let onRefused: (message: string) => void = () => {};
/** Registers the listener for a refused token. The session of a link, for example, ends with the server process. */
export function whenRefused(listener: (message: string) => void): void {
  onRefused = listener;
}
/** The protocols of a WebSocket, which has no headers in a browser. */
export const socketProtocols = (): string[] => (token === undefined ? [] : ["bearer", token]);

/** The headers of every request. The mark lets the server ask `console.view` and `console.act`. */
export function toHeaders(): Record<string, string> {
  return { "x-agentserve-console": "1", ...(token !== undefined && { authorization: `Bearer ${token}` }) };
}

export interface RequestOptions {
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE";
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal | undefined;
}

/** Sends a request. Throws an `ApiError` unless the status is a success. */
async function send(to: string, { method, body, headers, signal }: RequestOptions = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(toUrl(to), {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: { ...toHeaders(), ...(body !== undefined && { "content-type": "application/json" }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The server cannot be reached");
  }
  if (response.ok) return response;
  const text = await response.text();
  const { error, success: _, ...fields } = readJson(text);
  const message = typeof error === "string" ? error : `The server answered ${response.status}`;
  // The routes of the console itself say what a token is not good for.
  if (response.status === 401 && !to.startsWith("/console/")) onRefused(message);
  throw new ApiError(response.status, message, fields);
}

/** Sends a request and returns `data` of its answer. The caller names the shape, which the server's own tests check. */
export async function ask<T>(to: string, options?: RequestOptions): Promise<T> {
  const response = await send(to, options);
  return ((await response.json()) as { data: T }).data;
}

/** Returns the query of a path, without the values that are undefined or empty. */
export function toQuery(values: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  return query.size > 0 ? `?${query}` : "";
}

/** Returns a path with its ids escaped: `path\`/workflows/${id}\``. */
export function path(texts: TemplateStringsArray, ...ids: string[]): string {
  return String.raw({ raw: texts }, ...ids.map(encodeURIComponent));
}

function readJson(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

/** Reads a stream of server-sent events, each one JSON. Ends with the stream. Calls `onOpen` when the server has answered. */
export async function* readEvents(
  to: string,
  { onOpen, ...options }: RequestOptions & { readonly onOpen?: () => void } = {},
): AsyncGenerator<unknown> {
  const response = await send(to, { ...options, headers: { accept: "text/event-stream", ...options.headers } });
  onOpen?.();
  if (!response.body) return;
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      const data = frame.split("\n").flatMap((line) => (line.startsWith("data:") ? [line.slice(5).trimStart()] : []));
      if (data.length > 0) yield JSON.parse(data.join("\n"));
    }
  }
}

/** The delay before another try, by the number of failures: 250 ms, doubled with each failure up to 5 s. */
export const toBackOff = (failures: number): number => Math.min(250 * 2 ** failures, 5_000);
