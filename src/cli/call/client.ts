import { $fetch } from "ofetch";
import { toObject, tryParseJson } from "../../core/json.ts";
import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { maxBytes, readUpTo, readEvents, type ServerEvent } from "./events.ts";
import { notOurs, redirected, toConnectionError, toRefusalError } from "./failure.ts";
import type { Target } from "./target.ts";

interface RequestOptions {
  readonly body?: object;
  readonly signal?: AbortSignal;
}
const slowMs = 3_000;
const answerMs = 10_000;
// A live server sends a heartbeat every 15 seconds.
const silenceMs = 60_000;

/** The parts of the server's API that the command line uses. */
export class Client {
  readonly target: Target;
  readonly #report: (line: string) => void;

  /** `report` is called if the server is slow to respond. */
  constructor(target: Target, report: (line: string) => void) {
    this.target = target;
    this.#report = report;
  }

  /** Returns the `data` of the response. */
  get(path: string): Promise<unknown> {
    return this.#ask("GET", path, { signal: AbortSignal.timeout(answerMs) });
  }

  post(path: string, options: RequestOptions): Promise<unknown> {
    return this.#ask("POST", path, options);
  }

  /** Resolves when the response starts. The generator throws a `ConnectionError` if the connection is lost. */
  async stream(method: "GET" | "POST", path: string, options: RequestOptions): Promise<AsyncGenerator<ServerEvent>> {
    const { body, signal } = options;
    const silence = new AbortController();
    const both = AbortSignal.any([silence.signal, ...(signal ? [signal] : [])]);
    const response = await this.#send(method, path, { ...(body && { body }), signal: both }, "text/event-stream");
    if (response.ok && response.body && isType(response, "text/event-stream"))
      return this.#guard(response.body, silence, signal);
    const answer = await this.#toJsonAnswer(response, signal);
    throw answer.success ? notOurs(this.target) : toRefusalError(response.status, answer.error, this.target);
  }

  async #ask(method: string, path: string, options: RequestOptions): Promise<unknown> {
    const response = await this.#send(method, path, options, "application/json");
    const answer = await this.#toJsonAnswer(response, options.signal);
    if (answer.success) return answer.data;
    throw toRefusalError(response.status, answer.error, this.target);
  }

  async #send(method: string, path: string, { body, signal }: RequestOptions, accept: string): Promise<Response> {
    const { url, token } = this.target;
    const headers = { accept, ...(token !== undefined && { authorization: `Bearer ${token}` }) };
    const slow = setTimeout(() => this.#report(`still waiting for ${url} …`), slowMs);
    try {
      return await $fetch.raw(url + path, {
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
      throw toConnectionError(error, this.target, signal);
    } finally {
      clearTimeout(slow);
    }
  }

  /** Yields the events of a body. A failure of the connection is thrown as a `ConnectionError`. */
  async *#guard(
    body: ReadableStream<Uint8Array>,
    silence: AbortController,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ServerEvent> {
    const { target } = this;
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

  /** Reads the envelope of a JSON response. */
  async #toJsonAnswer(response: Response, signal: AbortSignal | undefined): Promise<JsonAnswer> {
    const isRedirect = response.status >= 300 && response.status < 400;
    if (isRedirect || !isType(response, "application/json")) {
      await response.body?.cancel();
      throw isRedirect ? redirected(response, this.target) : notOurs(this.target);
    }
    const text = await readUpTo(maxBytes, response.body ?? []).catch((error: unknown) => {
      throw toConnectionError(error, this.target, signal);
    });
    if (text === undefined) throw new UserError(`The response of ${this.target.url} is larger than 16 MiB`);
    const answer = toObject(tryParseJson(text));
    if (answer["success"] === true) return { success: true, data: answer["data"] };
    if (answer["success"] === false && typeof answer["error"] === "string")
      return { success: false, error: toVisible(answer["error"], { max: 2_000 }) };
    throw notOurs(this.target);
  }
}

type JsonAnswer = { success: true; data: unknown } | { success: false; error: string };

const isType = ({ headers }: Response, type: string): boolean =>
  (headers.get("content-type") ?? "").toLowerCase().startsWith(type);
