import { setTimeout as sleep } from "node:timers/promises";
import { cut } from "../../core/cut.ts";
import { busy, type ServeError } from "../../core/error.ts";

const readMs = 2_000;
const writeMs = 5_000;
/** The time for which a service that Restate does not know yet is asked for again. */
const unknownMs = 1_000;

export interface ClientOptions {
  /** The URLs of the ingress. A call that cannot connect goes to the next one. */
  readonly ingress: readonly string[];
  readonly admin: string;
}

/** Calls of this replica to Restate: through the ingress to handlers, and to the admin API. */
export class RestateClient {
  readonly #options: ClientOptions;
  #current = 0;
  #isReachable = false;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** Whether the last call was answered. */
  get isReachable(): boolean {
    return this.#isReachable;
  }

  /** Calls a handler that changes nothing. */
  read<T>(service: string, key: string, method: string, body: unknown = null): Promise<T> {
    return this.#call(toPath(service, key, method), body, AbortSignal.timeout(readMs));
  }

  /** Calls a handler that may change something. A call that is sent twice must be recognised by its token. */
  write<T>(service: string, key: string, method: string, body: unknown, limitMs: number = writeMs): Promise<T> {
    return this.#call(toPath(service, key, method), body, AbortSignal.timeout(limitMs));
  }

  /** Sends to a handler, to be run after a delay. Resolves when Restate has it. */
  async send(service: string, key: string, method: string, body: unknown, delayMs: number): Promise<void> {
    const path = `${toPath(service, key, method)}/send?delay=${delayMs}ms`;
    await this.#call(path, body, AbortSignal.timeout(writeMs));
  }

  /** Calls a handler that answers when something happens. */
  wait<T>(service: string, method: string, body: unknown, signal: AbortSignal): Promise<T> {
    return this.#call(`${service}/${method}`, body, signal);
  }

  async query<T>(sql: string): Promise<T[]> {
    const signal = AbortSignal.timeout(writeMs);
    const { text } = await this.#send(`${this.#options.admin}/query`, "POST", { query: sql }, signal);
    return (JSON.parse(text) as { rows: T[] }).rows;
  }

  /** Registers the URL of this replica's endpoint, in place of what was registered for it before. */
  async register(uri: string): Promise<void> {
    const signal = AbortSignal.timeout(10_000);
    await this.#send(`${this.#options.admin}/deployments`, "POST", { uri, force: true }, signal);
  }

  async version(): Promise<string> {
    const { text } = await this.#send(`${this.#options.admin}/version`, "GET", undefined, AbortSignal.timeout(readMs));
    return (JSON.parse(text) as { version: string }).version;
  }

  /** The URL at which Restate calls a service. Undefined: the service is not registered. */
  async registeredUrl(service: string): Promise<string | undefined> {
    const rows = await this.query<{ endpoint: string }>(
      `select d.endpoint from sys_service s join sys_deployment d on s.deployment_id = d.id where s.name = '${service}'`,
    );
    return rows[0]?.endpoint;
  }

  /** The status of an invocation, and the code of its last failure. */
  async invocation(id: string): Promise<{ status: string; code: string | null } | undefined> {
    const rows = await this.query<{ status: string; code: string | null }>(
      `select status, last_failure_error_code as code from sys_invocation where id = '${id}'`,
    );
    return rows[0];
  }

  /** Ends an invocation without running its code. */
  async kill(invocation: string): Promise<void> {
    const { admin } = this.#options;
    await this.#send(
      `${admin}/invocations/${invocation}/kill`,
      "PATCH",
      undefined,
      AbortSignal.timeout(writeMs),
      [404, 409],
    );
  }

  async #call<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
    const until = performance.now() + unknownMs;
    for (;;) {
      const { status, text } = await this.#sendToAny(path, body, signal);
      if (status !== 404) return (text === "" ? undefined : JSON.parse(text)) as T; // as the handler returns it
      // A server that has just started, or a deployment that was just registered.
      if (performance.now() >= until) throw unavailable(new Error(`${path}: ${cut(text)}`));
      await sleep(50);
    }
  }

  /** Tries every ingress once. */
  async #sendToAny(path: string, body: unknown, signal: AbortSignal): Promise<Answer> {
    const { ingress } = this.#options;
    for (let tries = 1; ; tries++) {
      const url = `${ingress[this.#current % ingress.length]}/${path}`;
      try {
        return await this.#send(url, "POST", body, signal, [404]);
      } catch (error) {
        if (signal.aborted || tries >= ingress.length) throw error;
        this.#current++;
      }
    }
  }

  async #send(
    url: string,
    method: string,
    body: unknown,
    signal: AbortSignal,
    allowed: number[] = [],
  ): Promise<Answer> {
    const headers = { "content-type": "application/json", accept: "application/json" };
    const init: RequestInit = { method, signal, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    let answer: Answer;
    try {
      const response = await fetch(url, init);
      answer = { status: response.status, text: await response.text() };
    } catch (error) {
      if (!signal.aborted || (signal.reason as Error).name === "TimeoutError") this.#isReachable = false;
      throw unavailable(error);
    }
    this.#isReachable = answer.status < 500;
    if (answer.status < 400 || allowed.includes(answer.status)) return answer;
    throw unavailable(new Error(`${method} ${url}: ${answer.status} ${cut(answer.text)}`));
  }
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

const toPath = (service: string, key: string, method: string): string =>
  `${service}/${encodeURIComponent(key)}/${method}`;

const unavailable = (cause: unknown): ServeError => busy("Restate cannot be reached", 1, cause);
