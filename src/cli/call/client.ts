import { $fetch } from "ofetch";
import { toObject, tryParseJson } from "../../core/json.ts";
import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { maxBytes, readUpTo } from "./bytes.ts";
import { readEvents, type ServerEvent } from "./events.ts";
import { notOurs, redirected, toConnectionError, toRefusalError } from "./failure.ts";
import type { Target } from "./target.ts";

interface RequestOptions {
  readonly body?: object;
  readonly signal?: AbortSignal;
}
/** The parts of the server's API that this command uses. */
export interface Client {
  readonly target: Target;
  /** Returns the `data` of the response. */
  get(path: string): Promise<unknown>;
  post(path: string, options: RequestOptions): Promise<unknown>;
  /** Resolves when the response starts. The generator throws a `ConnectionError` if the connection is lost. */
  stream(method: "GET" | "POST", path: string, options: RequestOptions): Promise<AsyncGenerator<ServerEvent>>;
}

const slowMs = 3_000;
const answerMs = 10_000;
// A live server sends a heartbeat every 15 seconds.
const silenceMs = 60_000;

/** Creates a client. `report` is called if the server is slow to respond. */
export function createClient(target: Target, report: (line: string) => void): Client {
  async function send(
    method: string,
    path: string,
    { body, signal }: RequestOptions,
    accept: string,
  ): Promise<Response> {
    const headers = { accept, ...(target.token !== undefined && { authorization: `Bearer ${target.token}` }) };
    const slow = setTimeout(() => report(`still waiting for ${target.url} …`), slowMs);
    try {
      return await $fetch.raw(target.url + path, {
        method,
        headers,
        ...(body && { body }),
        ...(signal && { signal }),
        responseType: "stream",
        redirect: "manual", // the token must not be sent to another server
        ignoreResponseError: true,
        retry: 0,
      });
    } catch (error) {
      throw toConnectionError(error, target, signal);
    } finally {
      clearTimeout(slow);
    }
  }

  async function ask(method: string, path: string, options: RequestOptions): Promise<unknown> {
    const response = await send(method, path, options, "application/json");
    const answer = await toJsonAnswer(response, target, options.signal);
    if (answer.success) return answer.data;
    throw toRefusalError(response.status, answer.error, target);
  }

  async function stream(
    method: string,
    path: string,
    { body, signal }: RequestOptions,
  ): Promise<AsyncGenerator<ServerEvent>> {
    const silence = new AbortController();
    const both = AbortSignal.any([silence.signal, ...(signal ? [signal] : [])]);
    const response = await send(method, path, { ...(body && { body }), signal: both }, "text/event-stream");
    if (response.ok && response.body && isType(response, "text/event-stream")) {
      return guard(response.body, silence, signal);
    }
    const answer = await toJsonAnswer(response, target, signal);
    throw answer.success ? notOurs(target) : toRefusalError(response.status, answer.error, target);
  }

  /** Yields the events of a body. A failure of the connection is thrown as a `ConnectionError`. */
  async function* guard(
    body: ReadableStream<Uint8Array>,
    silence: AbortController,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ServerEvent> {
    const timer = setTimeout(() => silence.abort(), silenceMs);
    async function* listen(): AsyncGenerator<Uint8Array> {
      try {
        for await (const bytes of body) {
          timer.refresh();
          yield bytes;
        }
      } catch (error) {
        throw toConnectionError(error, target, signal);
      }
    }
    try {
      yield* readEvents(listen());
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    target,
    get: (path) => ask("GET", path, { signal: AbortSignal.timeout(answerMs) }),
    post: (path, options) => ask("POST", path, options),
    stream,
  };
}

type JsonAnswer = { success: true; data: unknown } | { success: false; error: string };

/** Reads the envelope of a JSON response. */
async function toJsonAnswer(response: Response, target: Target, signal: AbortSignal | undefined): Promise<JsonAnswer> {
  if (response.status >= 300 && response.status < 400) {
    await response.body?.cancel();
    throw redirected(response, target);
  }
  if (!isType(response, "application/json")) {
    await response.body?.cancel();
    throw notOurs(target);
  }
  const answer = toObject(tryParseJson(await readText(response, target, signal)));
  if (answer["success"] === true) return { success: true, data: answer["data"] };
  if (answer["success"] === false && typeof answer["error"] === "string") {
    return { success: false, error: toVisible(answer["error"], { max: 2_000 }) };
  }
  throw notOurs(target);
}

async function readText(response: Response, target: Target, signal: AbortSignal | undefined): Promise<string> {
  const text = await readUpTo(maxBytes, response.body ?? []).catch((error: unknown) => {
    throw toConnectionError(error, target, signal);
  });
  if (text === undefined) throw new UserError(`The response of ${target.url} is larger than 16 MiB`);
  return text;
}

const isType = ({ headers }: Response, type: string): boolean =>
  (headers.get("content-type") ?? "").toLowerCase().startsWith(type);
