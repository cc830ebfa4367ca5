import { setTimeout as sleep } from "node:timers/promises";
import { cut } from "../../../core/cut.ts";
import { busy, type ServeError } from "../../../core/error.ts";
import type { RestateTimeouts } from "../options.ts";
import { sendJson, type HttpAnswer } from "./http-calls.ts";
import { IngressHealth } from "./ingress-health.ts";

export interface ClientOptions {
  /** The URLs of the ingress. A call that fails goes to the next one. */
  readonly ingress: readonly string[];
  readonly admin: string;
  readonly timeouts: RestateTimeouts;
}

type Headers = Readonly<Record<string, string>>;

/** Calls of this replica to Restate: through the ingress to handlers, and to the admin API. */
export class RestateClient {
  readonly #options: ClientOptions;
  readonly #health: IngressHealth;
  #current = 0;
  #isReachable = false;
  #isProbing = false;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#health = new IngressHealth(options.timeouts.readMs);
  }

  /** True if the last call was answered. */
  get isReachable(): boolean {
    return this.#isReachable;
  }

  /** Asks an ingress for its health if the last call was not answered, one at a time: `isReachable` is then about this one. */
  async probe(): Promise<void> {
    if (this.#isReachable || this.#isProbing) return;
    const used = this.#current;
    const url = this.#options.ingress[used % this.#options.ingress.length]!;
    this.#isProbing = true;
    try {
      const signal = AbortSignal.timeout(this.#options.timeouts.readMs);
      await this.#send(`${url}/restate/health`, "GET", undefined, signal);
    } catch {
      this.#moveOn(used);
    } finally {
      this.#isProbing = false;
    }
  }

  /** Calls a handler that changes nothing, within `readMs`. If a longer time is given, an ingress that hangs ends it before. */
  read<T>(service: string, key: string, method: string, body: unknown = null, limitMs = 0): Promise<T> {
    const signal = AbortSignal.timeout(Math.max(limitMs, this.#options.timeouts.readMs));
    return this.#call(toPath(service, key, method), body, signal, limitMs > 0);
  }

  /** Calls a handler that may change something. A call that is sent twice must be recognised by its token. */
  write<T>(service: string, key: string, method: string, body: unknown, limitMs?: number): Promise<T> {
    const signal = AbortSignal.timeout(limitMs ?? this.#options.timeouts.writeMs);
    return this.#call(toPath(service, key, method), body, signal);
  }

  /** The same, for a handler that must run once. A call with the id of an earlier one gets the result of that one. */
  writeOnce<T>(service: string, key: string, method: string, body: unknown, id: string): Promise<T> {
    const signal = AbortSignal.timeout(this.#options.timeouts.writeMs);
    return this.#call(toPath(service, key, method), body, signal, false, { "idempotency-key": id });
  }

  /** Sends to a handler that runs it once, however often it is sent with this id. Resolves to false if it was sent before. */
  async sendOnce(
    service: string,
    key: string,
    method: string,
    body: unknown,
    { id, delayMs = 0 }: { id: string; delayMs?: number },
  ): Promise<boolean> {
    const signal = AbortSignal.timeout(this.#options.timeouts.writeMs);
    const path = `${toPath(service, key, method)}/send?delay=${delayMs}ms`;
    const sent = await this.#call<{ status: string }>(path, body, signal, false, { "idempotency-key": id });
    return sent.status === "Accepted";
  }

  /** Resolves an awakeable, if it still exists. */
  async resolve(awakeable: string): Promise<void> {
    const signal = AbortSignal.timeout(this.#options.timeouts.writeMs);
    await this.#sendToAny(`restate/awakeables/${awakeable}/resolve`, null, signal, false);
  }

  /** Calls a handler that answers when something happens. */
  wait<T>(service: string, method: string, body: unknown, signal: AbortSignal): Promise<T> {
    return this.#call(`${service}/${method}`, body, signal, true);
  }

  /** Waits for something on this replica. Rejects when no ingress answers meanwhile. */
  async whileReachable(local: Promise<unknown>): Promise<void> {
    const { ingress } = this.#options;
    for (let tries = 1; ; tries++) {
      const used = this.#current;
      const url = ingress[used % ingress.length]!;
      const isOver = await this.#health.watch(url, (lost) => endsBefore(local, lost));
      if (isOver) return;
      this.#moveOn(used);
      if (tries >= ingress.length) throw unavailable(new Error(`${url} does not answer`));
    }
  }

  async query<T>(sql: string): Promise<T[]> {
    const signal = AbortSignal.timeout(this.#options.timeouts.writeMs);
    const { text } = await this.#send(`${this.#options.admin}/query`, "POST", { query: sql }, signal);
    return (JSON.parse(text) as { rows: T[] }).rows;
  }

  /** Registers the URL of this replica's endpoint, in place of what was registered for it before. */
  async register(uri: string): Promise<void> {
    const signal = AbortSignal.timeout(10_000);
    await this.#send(`${this.#options.admin}/deployments`, "POST", { uri, force: true }, signal);
  }

  async version(): Promise<string> {
    const { text } = await this.#send(
      `${this.#options.admin}/version`,
      "GET",
      undefined,
      AbortSignal.timeout(this.#options.timeouts.readMs),
    );
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
      AbortSignal.timeout(this.#options.timeouts.writeMs),
      [404, 409],
    );
  }

  async #call<T>(path: string, body: unknown, signal: AbortSignal, isWait = false, headers?: Headers): Promise<T> {
    const until = performance.now() + this.#options.timeouts.readMs;
    for (;;) {
      const { status, text } = await this.#sendToAny(path, body, signal, isWait, headers);
      if (status !== 404) return (text === "" ? undefined : JSON.parse(text)) as T; // as the handler returns it
      // A server that has just started, or a deployment that was just registered.
      if (performance.now() >= until) throw unavailable(new Error(`${path}: ${cut(text)}`));
      await sleep(50);
    }
  }

  /** Tries every ingress once, within the time limit. */
  async #sendToAny(
    path: string,
    body: unknown,
    signal: AbortSignal,
    isWait: boolean,
    headers?: Headers,
  ): Promise<HttpAnswer> {
    const { ingress } = this.#options;
    for (let tries = 1; ; tries++) {
      const used = this.#current;
      const url = ingress[used % ingress.length]!;
      const send = (stop: AbortSignal): Promise<HttpAnswer> =>
        this.#send(`${url}/${path}`, "POST", body, stop, [404], headers);
      try {
        if (!isWait) return await send(signal);
        return await this.#health.watch(url, (lost) => send(AbortSignal.any([signal, lost])));
      } catch (error) {
        // Also after a time limit: the next call must not wait for the same one.
        if (!isLeft(signal)) this.#moveOn(used);
        if (signal.aborted || tries >= ingress.length) throw error;
      }
    }
  }

  /** The next calls use the next ingress. Concurrent calls that fail move on once. */
  #moveOn(used: number): void {
    this.#isReachable = false;
    if (this.#current === used) this.#current++;
  }

  async #send(
    url: string,
    method: string,
    body: unknown,
    signal: AbortSignal,
    allowed: number[] = [],
    headers?: Headers,
  ): Promise<HttpAnswer> {
    let answer: HttpAnswer;
    try {
      const text = body === undefined ? undefined : JSON.stringify(body);
      answer = await sendJson(url, { method, signal, body: text, headers });
    } catch (error) {
      if (!isLeft(signal)) this.#isReachable = false;
      throw unavailable(error);
    }
    this.#isReachable = answer.status < 500;
    if (answer.status < 400 || allowed.includes(answer.status)) return answer;
    throw unavailable(new Error(`${method} ${url}: ${answer.status} ${cut(answer.text)}`));
  }
}

/** Returns true if a promise resolves before a signal is aborted. */
function endsBefore(local: Promise<unknown>, lost: AbortSignal): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const onLost = (): void => resolve(false);
  lost.addEventListener("abort", onLost, { once: true });
  void local.then(() => resolve(true));
  return promise.finally(() => lost.removeEventListener("abort", onLost));
}

/** Returns true if the caller has given up, rather than its time limit. */
const isLeft = ({ aborted, reason }: AbortSignal): boolean => aborted && (reason as Error).name !== "TimeoutError";

const toPath = (service: string, key: string, method: string): string =>
  `${service}/${encodeURIComponent(key)}/${method}`;

const unavailable = (cause: unknown): ServeError => busy("Restate cannot be reached", 1, cause);
