import { setTimeout as sleep } from "node:timers/promises";
import type { OpenApi } from "../../../src/pages/document/openapi.ts";
import { createClient } from "../../harness/client.ts";
import { patienceMs } from "../../harness/patience.ts";
import { within } from "../../harness/waiting.ts";
import type { Log } from "../kills/log.ts";
import type { Reply, Request, Serving, Stream } from "../kills/process.ts";
import type { FaultyStore } from "./store.ts";

/** A connection that was cut. */
class Cut extends Error {}

/** A server behind faulty sockets, over a faulty store. */
export class FaultyServing implements Serving {
  readonly life = 1;
  readonly commitsLate = true;
  readonly log: Log;
  /** The statuses of all answers, with their number. */
  readonly statuses: Map<number, number> = new Map();
  /** Connections that were cut. */
  cuts = 0;
  readonly #url: string;
  readonly #doc: OpenApi;
  readonly #store: FaultyStore;
  readonly #request: ReturnType<typeof createClient>["request"];
  readonly #broken = Promise.withResolvers<never>();

  constructor({ url, doc, log, store }: { url: string; doc: OpenApi; log: Log; store: FaultyStore }) {
    this.#url = url;
    this.#doc = doc;
    this.#store = store;
    this.log = log;
    this.#broken.promise.catch(() => {});
    // It checks every answer against `/doc`.
    this.#request = createClient((path, init) => this.#send(path, init), doc).request;
  }

  isOver(): boolean {
    return false;
  }

  fail(error: unknown): void {
    this.#broken.reject(error);
  }

  /** Settles as the promise does, or rejects when anything has failed. */
  unlessBroken<T>(promise: Promise<T>): Promise<T> {
    return Promise.race([promise, this.#broken.promise]);
  }

  within<T>(what: string, promise: Promise<T>): Promise<T> {
    return within(this.unlessBroken(promise), what);
  }

  /** The whole answer. */
  async #send(path: string, init: RequestInit): Promise<Response> {
    const response = await this.#fetch(path, init);
    const text = await response.text().catch((error: unknown) => this.#cut(error));
    return new Response(text, { status: response.status, headers: response.headers });
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const signal = AbortSignal.timeout(patienceMs);
    const response = await fetch(this.#url + path, { ...init, signal }).catch((error: unknown) => this.#cut(error));
    this.statuses.set(response.status, (this.statuses.get(response.status) ?? 0) + 1);
    // Nothing has read the headers within headersMs, so nothing was begun: the machine is very busy.
    if (response.status === 408) this.#cut(new Error("408"));
    return response;
  }

  #cut(error: unknown): never {
    if ((error as Error).name === "TimeoutError") throw new Error("no answer in time", { cause: error });
    this.cuts++;
    throw new Cut("The connection was cut", { cause: error });
  }

  async ask(path: string, { method = "GET", json, headers = {} }: Request = {}): Promise<Reply | undefined> {
    const asked = this.#request(path, { method, headers, ...(json !== undefined && { json }) });
    const answer = await this.within(`${method} ${path}`, asked).catch(ifCut);
    if (!answer) return undefined;
    const { status, body } = answer;
    if (status !== 503) return { status, body, executionId: answer.headers.get("x-execution-id") ?? undefined };
    if (answer.headers.get("retry-after") === null) throw new Error(`${path}: 503 without Retry-After: ${answer.text}`);
    await this.#refused(path, json, answer.text);
    return undefined;
  }

  /** Waits until a refused request can no longer be carried out, or shows that it should not have been. */
  async #refused(path: string, json: unknown, text: string): Promise<void> {
    // With the next commit, if at all: the jobs that wait for the store are committed together. Perhaps none does.
    const { commits } = this.#store;
    const before = commits();
    for (let times = 0; times < 250 && commits() === before; times++) await sleep(20);
    const id = (json as { options?: { executionId?: string } } | undefined)?.options?.executionId;
    if (id === undefined || !text.includes("nothing was started")) return;
    const found = await this.ask(path.replace(/\/(execute|stream)$/, `/executions/${id}/state`));
    if (found && found.status !== 404) throw new Error(`${id} was refused with ${text}, and exists`);
  }

  async open(path: string, { method = "GET", json, headers = {} }: Request = {}): Promise<Stream | undefined> {
    const init: RequestInit = { method, headers: { ...headers, "content-type": "application/json" } };
    if (json !== undefined) init.body = JSON.stringify(json);
    const response = await this.#fetch(path, init).catch(ifCut);
    if (!response) return undefined;
    const { status } = response;
    const executionId = response.headers.get("x-execution-id") ?? undefined;
    if (status === 200) return { status, executionId, frames: this.#frames(response) };
    const text = await this.#check(path, method, response).catch(ifCut);
    if (status === 503) await this.#refused(path, json, text ?? "");
    // 409: an earlier request began it, and its answer was cut.
    return status === 503 || status === 409 ? undefined : { status, executionId, frames: this.#frames(response) };
  }

  /** Checks a response that is not a stream, though it was asked for one, against `/doc`. */
  async #check(path: string, method: string, response: Response): Promise<string> {
    const text = await response.text().catch((error: unknown) => this.#cut(error));
    const whole = new Response(text, { status: response.status, headers: response.headers });
    await createClient(() => Promise.resolve(whole), this.#doc).request(path, { method });
    return text;
  }

  /** The frames that came whole. */
  async *#frames(response: Response): AsyncGenerator<string> {
    let text = "";
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) {
        const frames = (text + decoder.decode(chunk, { stream: true })).split("\n\n");
        text = frames.pop()!;
        yield* frames;
      }
    } catch {
      this.cuts++;
    }
  }

  async close(): Promise<void> {
    this.fail(new Error("closed"));
  }
}

function ifCut(error: unknown): undefined {
  if (!(error instanceof Cut)) throw error;
}
