import { setTimeout as sleep } from "node:timers/promises";
import { cut } from "../../../core/cut.ts";
import { busy, type ServeError } from "../../../core/error.ts";
import { toNames, toTarget, type HandlerName, type ServiceNames } from "../calls.ts";
import type { RestateTimeouts } from "../options.ts";
import type { WaitCalls, WaitParameter, WaitResult } from "../reads/wait.ts";
import { sendJson, type HttpAnswer, type HttpCall } from "./http-calls.ts";
import { IngressHealth } from "./ingress-health.ts";
import { TimeLimit } from "./time-limit.ts";

export interface ClientOptions {
  /** The URLs of the ingress. A call that fails goes to the next one. */
  readonly ingress: readonly string[];
  readonly admin: string;
  /** The name of the server. */
  readonly name: string;
  readonly timeouts: RestateTimeouts;
}

interface CallOptions {
  /** The time limit, or the signal of a caller that waits without one. */
  readonly limit: number | AbortSignal;
  /** True if an ingress that hangs ends the call before its limit. */
  readonly isWait?: boolean;
  /** The idempotency key. */
  readonly id?: string;
}

/** Calls of this replica to Restate: through the ingress to handlers, and to the admin API. */
export class RestateClient {
  readonly names: ServiceNames;
  readonly #options: ClientOptions;
  /** Handlers and lists are asked after it: before the first registration Restate may not know the services. */
  readonly #known: Promise<void>;
  readonly #health: IngressHealth;
  #current = 0;
  #isReachable = false;
  #isProbing = false;

  constructor(options: ClientOptions, known: Promise<void> = Promise.resolve()) {
    this.#options = options;
    this.#known = known;
    this.names = toNames(options.name);
    this.#health = new IngressHealth(options.timeouts.readMs);
  }

  /** True if the last call was answered. */
  get isReachable(): boolean {
    return this.#isReachable;
  }
  get #url(): string {
    const { ingress } = this.#options;
    return ingress[this.#current % ingress.length] ?? ""; // there is at least one
  }

  /** Asks an ingress for its health if the last call was not answered, one at a time: `isReachable` is then about this one. */
  async probe(): Promise<void> {
    if (this.#isReachable || this.#isProbing) return;
    const used = this.#current;
    this.#isProbing = true;
    try {
      using limit = new TimeLimit(this.#options.timeouts.readMs);
      await this.#send(`${this.#url}/restate/health`, { method: "GET", signal: limit.signal });
    } catch {
      this.#moveOn(used);
    } finally {
      this.#isProbing = false;
    }
  }

  /** Calls a read-only handler, within `readMs`. With a longer `limitMs`, an ingress that hangs is left before the limit. */
  read<T>(handler: HandlerName, key: string, input: unknown = null, limitMs = 0): Promise<T> {
    const limit = Math.max(limitMs, this.#options.timeouts.readMs);
    return this.#call(this.#toPath(handler, key), input, { limit, isWait: limitMs > 0 });
  }

  /** Calls a handler that may change something. A call that is sent twice must be recognised by its token. */
  write<T>(handler: HandlerName, key: string, input: unknown, limitMs?: number): Promise<T> {
    return this.#call(this.#toPath(handler, key), input, { limit: limitMs ?? this.#options.timeouts.writeMs });
  }

  /** Calls a handler that must run once. A call with a known id gets the result of the first one. */
  writeOnce<T>(handler: HandlerName, key: string, input: unknown, id: string): Promise<T> {
    return this.#call(this.#toPath(handler, key), input, { limit: this.#options.timeouts.writeMs, id });
  }

  /** Sends to a handler that runs it once, however often it is sent with this id. Resolves to false if it was sent before. */
  async sendOnce(
    handler: HandlerName,
    key: string,
    input: unknown,
    { id, delayMs = 0 }: { id: string; delayMs?: number },
  ): Promise<boolean> {
    const path = `${this.#toPath(handler, key)}/send?delay=${delayMs}ms`;
    const sent = await this.#call<{ status: string }>(path, input, { limit: this.#options.timeouts.writeMs, id });
    return sent.status === "Accepted";
  }

  /** Calls a handler that answers when something happens. */
  wait<Name extends keyof WaitCalls>(
    name: Name,
    input: WaitParameter<Name>,
    signal: AbortSignal,
  ): Promise<WaitResult<Name>> {
    return this.#call(`${this.names.wait}/${name}`, input, { limit: signal, isWait: true });
  }

  /** Calls `wait` for a minute at most. Resolves to undefined, after a pause, if there was no answer. */
  async waitOnce<Name extends keyof WaitCalls>(
    name: Name,
    input: WaitParameter<Name>,
    signal: AbortSignal,
  ): Promise<WaitResult<Name> | undefined> {
    const stop = AbortSignal.any([signal, AbortSignal.timeout(60_000)]);
    const answer = await this.wait(name, input, stop).catch(() => undefined);
    if (answer === undefined && !signal.aborted) await sleep(500, undefined, { ref: false });
    return answer;
  }

  /** Resolves an awakeable, if it still exists. */
  async resolve(awakeable: string): Promise<void> {
    using limit = new TimeLimit(this.#options.timeouts.writeMs);
    await this.#sendToAny(`restate/awakeables/${awakeable}/resolve`, null, limit.signal, {});
  }

  /** Waits for something on this replica. Rejects when no ingress answers meanwhile. */
  async whileReachable(local: Promise<unknown>): Promise<void> {
    for (let tries = 1; ; tries++) {
      const used = this.#current;
      const url = this.#url;
      const isOver = await this.#health.watch(url, (lost) => endsBefore(local, lost));
      if (isOver) return;
      this.#moveOn(used);
      if (tries >= this.#options.ingress.length) throw unavailable(new Error(`${url} does not answer`));
    }
  }

  async query<T>(sql: string): Promise<T[]> {
    await this.#known;
    const { text } = await this.#askAdmin("POST", "query", { query: sql });
    return (JSON.parse(text) as { rows: T[] }).rows;
  }

  /** Registers the URL of this replica's endpoint, in place of what was registered for it before. */
  async register(uri: string): Promise<void> {
    await this.#askAdmin("POST", "deployments", { uri, force: true }, 10_000);
  }

  async version(): Promise<string> {
    const { text } = await this.#askAdmin("GET", "version", undefined, this.#options.timeouts.readMs);
    return (JSON.parse(text) as { version: string }).version;
  }

  /** The URL at which Restate calls the register. Undefined: the services are not registered. */
  async registeredUrl(): Promise<string | undefined> {
    const rows = await this.query<{ endpoint: string }>(
      `select d.endpoint from sys_service s join sys_deployment d on s.deployment_id = d.id
        where s.name = '${this.names.register}'`,
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
    await this.#askAdmin("PATCH", `invocations/${invocation}/kill`, undefined, undefined, [404, 409]);
  }

  async #askAdmin(
    method: string,
    path: string,
    body?: unknown,
    limitMs = this.#options.timeouts.writeMs,
    allowed?: readonly number[],
  ): Promise<HttpAnswer> {
    using limit = new TimeLimit(limitMs);
    return await this.#send(`${this.#options.admin}/${path}`, { method, body, signal: limit.signal, allowed });
  }

  #toPath(handler: HandlerName, key: string): string {
    const { service, method } = toTarget(this.names, handler);
    return `${service}/${encodeURIComponent(key)}/${method}`;
  }

  async #call<T>(path: string, input: unknown, { limit, ...options }: CallOptions): Promise<T> {
    await this.#known;
    using timer = typeof limit === "number" ? new TimeLimit(limit) : undefined;
    const signal = timer?.signal ?? (limit as AbortSignal); // a number has a timer
    const until = performance.now() + this.#options.timeouts.readMs;
    for (;;) {
      const { status, text } = await this.#sendToAny(path, input, signal, options);
      if (status !== 404) return (text === "" ? undefined : JSON.parse(text)) as T; // as the handler returns it
      // The server has just started, or the deployment was just registered.
      if (performance.now() >= until) throw unavailable(new Error(`${path}: ${cut(text)}`));
      await sleep(50);
    }
  }

  /** Tries every ingress once, within the time limit. */
  async #sendToAny(
    path: string,
    body: unknown,
    signal: AbortSignal,
    { isWait, id }: Omit<CallOptions, "limit">,
  ): Promise<HttpAnswer> {
    const headers = id === undefined ? undefined : { "idempotency-key": id };
    for (let tries = 1; ; tries++) {
      const used = this.#current;
      const url = this.#url;
      const send = (stop: AbortSignal): Promise<HttpAnswer> =>
        this.#send(`${url}/${path}`, { method: "POST", body, signal: stop, headers, allowed: [404] });
      try {
        if (!isWait) return await send(signal);
        return await this.#health.watch(url, (lost) => send(AbortSignal.any([signal, lost])));
      } catch (error) {
        // Also after a time limit: the next call must not wait for the same one.
        if (!isLeft(signal)) this.#moveOn(used);
        if (signal.aborted || tries >= this.#options.ingress.length) throw error;
      }
    }
  }

  /** The next calls use the next ingress. Concurrent calls that fail move on once. */
  #moveOn(used: number): void {
    this.#isReachable = false;
    if (this.#current === used) this.#current++;
  }

  async #send(url: string, { body, allowed, ...call }: SentCall): Promise<HttpAnswer> {
    let answer: HttpAnswer;
    try {
      answer = await sendJson(url, { ...call, body: body === undefined ? undefined : JSON.stringify(body) });
    } catch (error) {
      if (!isLeft(call.signal)) this.#isReachable = false;
      throw unavailable(error);
    }
    this.#isReachable = answer.status < 500;
    if (answer.status < 400 || allowed?.includes(answer.status)) return answer;
    throw unavailable(new Error(`${call.method} ${url}: ${answer.status} ${cut(answer.text)}`));
  }
}

interface SentCall extends Omit<HttpCall, "body"> {
  readonly body?: unknown;
  /** Statuses that are not errors. */
  readonly allowed?: readonly number[] | undefined;
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

const unavailable = (cause: unknown): ServeError => busy("Restate cannot be reached", 1, cause);

/** Repeats a call until it is answered. `onFailure` throws to give up. */
export async function persist<T>(
  call: () => Promise<T>,
  {
    maxMs = 1_000,
    onFailure = () => {},
  }: { maxMs?: number; onFailure?: (error: unknown, pauseMs: number) => void } = {},
): Promise<T> {
  for (let pauseMs = 100; ; pauseMs = Math.min(2 * pauseMs, maxMs)) {
    try {
      return await call();
    } catch (error) {
      onFailure(error, pauseMs);
      await sleep(pauseMs, undefined, { ref: false });
    }
  }
}
