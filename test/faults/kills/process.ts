import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { RestateBackendOptions } from "../../../src/backends/restate/define.ts";
import type { Orders } from "./host.ts";
import { Log, type Mark } from "./log.ts";
import { toMendedFile } from "./mended.ts";
import { toName, type Point } from "./points.ts";
import { patienceMs } from "../../harness/patience.ts";

export interface Reply {
  readonly status: number;
  readonly executionId: string | undefined;
  readonly body: any;
}
export interface Stream extends Omit<Reply, "body"> {
  /** The frames that came whole. They end when the stream does, however that happens. */
  readonly frames: AsyncGenerator<string>;
}
export interface Request {
  method?: "GET" | "POST";
  json?: unknown;
  headers?: Record<string, string>;
}

/** A server as its clients see it: answers that may never come, and the log of what really ran. */
export interface Serving {
  readonly log: Log;
  readonly life: number;
  /** Whether a change that was not acknowledged can still be committed in this life. */
  readonly commitsLate?: boolean;
  /** Whether a step may begin after a suspend or cancel was answered. */
  readonly hearsLate?: boolean;
  isOver(life: number): boolean;
  fail(error: unknown): void;
  within<T>(what: string, promise: Promise<T>): Promise<T>;
  /** An answer; undefined when there is none, or none that says whether it was carried out. */
  ask(path: string, request?: Request): Promise<Reply | undefined>;
  /** A stream; undefined when there is none. */
  open(path: string, request?: Request): Promise<Stream | undefined>;
  /** From now on the weak steps of this execution do not fail. Only where executions are retried. */
  mend?(executionId: string): void;
  close(): Promise<void>;
}

const patience = patienceMs;

/** The server as a process of its own that is killed and started again on the same file. */
export class Lives implements Serving {
  readonly log: Log;
  readonly commitsLate: boolean;
  readonly hearsLate: boolean;
  /** How often it was started. */
  life = 0;
  readonly #folder: string;
  readonly #cluster: RestateBackendOptions | undefined;
  /** The next one has its code loaded before it is needed, so that a life is short and still has time to work. */
  #spare: ChildProcess;
  #child: ChildProcess | undefined;
  #up = Promise.withResolvers<{ url: string; life: number }>();
  #ended = Promise.withResolvers<NodeJS.Signals | null>();
  readonly #broken = Promise.withResolvers<never>();
  #stderr = "";

  constructor(folder: string, cluster?: RestateBackendOptions) {
    this.#folder = folder;
    this.#cluster = cluster;
    this.hearsLate = cluster !== undefined;
    this.commitsLate = cluster !== undefined; // Restate has the call, and carries it out in the next life
    this.log = new Log(join(folder, "log"));
    this.#broken.promise.catch(() => {});
    this.#spare = this.#spawn();
  }

  /** Whatever anybody waits for from now on fails with this. */
  fail(error: unknown): void {
    this.#broken.reject(error);
  }

  /** Whoever waits for anything hears of it when this fails. */
  watch<T>(promise: Promise<T>): Promise<T> {
    promise.catch((error: unknown) => this.fail(error));
    return promise;
  }

  /** What is waited for, unless something fails first or it takes too long. */
  async within<T>(what: string, promise: Promise<T>, ms = patience): Promise<T> {
    const late = new AbortController();
    const tooLate = sleep(ms, undefined, { signal: late.signal }).then(() => {
      throw new Error(`${what} took more than ${ms} ms`);
    });
    try {
      return await Promise.race([promise, this.#broken.promise, tooLate]);
    } finally {
      late.abort();
      tooLate.catch(() => {});
    }
  }

  /** Resolves when this holds. */
  async until(what: string, holds: () => boolean): Promise<void> {
    const last = performance.now() + patience;
    while (!holds()) {
      if (performance.now() > last) throw new Error(`${what}: not within ${patience} ms`);
      await this.within("a moment", sleep(5));
    }
  }

  #spawn(): ChildProcess {
    const { PATH, HOME, NODE_COMPILE_CACHE = join(this.#folder, "..", "compile-cache") } = process.env;
    const child = spawn(process.execPath, [join(import.meta.dirname, "host.ts")], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { PATH, HOME, NODE_COMPILE_CACHE },
    });
    child.stdin!.on("error", () => {}); // it was killed before it read
    child.stderr!.setEncoding("utf8").on("data", (text: string) => (this.#stderr += text));
    return child;
  }

  /** Starts the next life. Whoever waits for it goes on when it listens. */
  async start(): Promise<void> {
    const child = (this.#child = this.#spare);
    const ended = (this.#ended = Promise.withResolvers());
    const up = this.#up;
    const life = ++this.life;
    let listens = false;
    createInterface({ input: child.stdout! }).once("line", (url) => {
      listens = true;
      up.resolve({ url, life });
    });
    child.once("close", (code, signal) => {
      // Whoever waits for one that never listened waits for the next.
      if (listens) this.#up = Promise.withResolvers();
      if (signal !== "SIGKILL") this.fail(new Error(`life ${life} ended with ${code ?? signal}:\n${this.#stderr}`));
      ended.resolve(signal);
    });
    if (child.exitCode !== null) this.fail(new Error(`it did not load:\n${this.#stderr}`));
    this.#order({ start: { folder: this.#folder, life, cluster: this.#cluster } });
    this.#spare = this.#spawn();
    await this.within(`life ${life}: to listen`, up.promise);
  }

  #order(orders: Orders): void {
    this.#child!.stdin!.write(`${JSON.stringify(orders)}\n`);
  }

  get file(): string {
    return join(this.#folder, "data.db");
  }

  arm(point: Point): void {
    this.#order({ arm: point });
  }

  mend(executionId: string): void {
    writeFileSync(toMendedFile(this.#folder, executionId), "");
  }

  /** At whatever it is doing. */
  async kill(): Promise<void> {
    this.#child!.kill("SIGKILL");
    await this.within("to die", this.#ended.promise);
  }

  /** Resolves when the process has ended itself at this point. */
  async died(point: Point): Promise<Mark> {
    const { life } = this;
    await this.within(`${toName(point)}: to be reached`, this.#ended.promise);
    this.log.now();
    const mark = this.log.marks.at(-1);
    if (mark?.life !== life || mark.point !== toName(point))
      throw new Error(`life ${life} did not end at ${toName(point)}`);
    return mark;
  }

  /** Whether the process is still the one of that life. */
  isOver(life: number): boolean {
    return life !== this.life || this.#child!.signalCode !== null;
  }

  /** An answer, or undefined when the process died before it was there. */
  async ask(path: string, request: Request = {}): Promise<Reply | undefined> {
    const opened = await this.#fetch(path, request);
    if (!opened) return undefined;
    const { response, life, status, executionId } = opened;
    try {
      return { status, executionId, body: await response.json() };
    } catch (error) {
      return this.#sawDeath(life, error);
    }
  }

  /** A stream, or undefined when the process died before it began. */
  async open(path: string, request: Request = {}): Promise<Stream | undefined> {
    const opened = await this.#fetch(path, request);
    if (!opened) return undefined;
    const { response, life, status, executionId } = opened;
    return { status, executionId, frames: this.#frames(response, life) };
  }

  async *#frames(response: Response, life: number): AsyncGenerator<string> {
    let text = "";
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) {
        const frames = (text + decoder.decode(chunk, { stream: true })).split("\n\n");
        text = frames.pop()!;
        yield* frames;
      }
    } catch (error) {
      await this.#sawDeath(life, error);
    }
  }

  async #fetch(path: string, { method = "GET", json, headers = {} }: Request) {
    const { url, life } = await this.within("the next life", this.#up.promise);
    const init: RequestInit = { method, headers, signal: AbortSignal.timeout(patience) };
    if (json !== undefined) {
      init.body = JSON.stringify(json);
      init.headers = { ...headers, "content-type": "application/json" };
    }
    try {
      const response = await fetch(url + path, init);
      const executionId = response.headers.get("x-execution-id") ?? undefined;
      return { response, life, status: response.status, executionId };
    } catch (error) {
      return this.#sawDeath(life, error);
    }
  }

  /** A connection that breaks is right only if the process has died. */
  async #sawDeath(life: number, error: unknown): Promise<undefined> {
    if (life !== this.life) return;
    if ((error as Error).name === "TimeoutError") throw new Error("no answer in time", { cause: error });
    await this.within(`an answer was not whole (${String(error)}): to die`, this.#ended.promise);
  }

  async close(): Promise<void> {
    this.fail(new Error("closed"));
    await Promise.all([this.#child, this.#spare].map((child) => child && end(child)));
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, "close");
  child.kill("SIGKILL");
  await closed;
}
