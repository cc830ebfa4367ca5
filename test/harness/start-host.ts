import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { onTestFinished } from "vitest";
import type { FromHost, Memory, ToHost } from "./hosted.ts";
import { keepLogged } from "./logged.ts";
import { within } from "./waiting.ts";

export interface HostSettings {
  readonly execArgv?: readonly string[];
  /** @default the environment of the test */
  readonly env?: NodeJS.ProcessEnv;
  onReport?(message: any): void;
}

/** A process that runs `host.ts` with a module. It loads its code, and opens its server at `start`. */
export class Host {
  readonly child: ChildProcess;
  /** Resolves when the process has ended, and all that it wrote was read. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** The URL of the server once it listens. */
  url = "";
  readonly #text = { stdout: "", stderr: "" };
  readonly #listening = Promise.withResolvers<string>();
  readonly #replies = new Map<number, (value: unknown) => void>();
  #orders = 0;

  constructor(module: string, { execArgv = [], env, onReport }: HostSettings = {}) {
    const args = [...execArgv, join(import.meta.dirname, "host.ts"), module];
    const child = spawn(process.execPath, args, {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      ...(env && { env }),
    });
    this.child = child;
    for (const name of ["stdout", "stderr"] as const)
      child[name]!.setEncoding("utf8").on("data", (chunk: string) => {
        this.#text[name] = (this.#text[name] + stripVTControlCharacters(chunk)).slice(-1_000_000);
      });
    child.on("error", () => {}); // a message was sent to a process that has ended
    child.on("message", (message: FromHost) => {
      if ("url" in message) this.#listening.resolve((this.url = message.url));
      else if ("report" in message) onReport?.(message.report);
      else this.#replies.get(message.id)!(message.reply);
    });
    this.ended = once(child, "close").then(([code, signal]) => {
      keepLogged(this.#text.stderr);
      return { code, signal };
    });
  }

  /** Opens the server. Resolves to its URL, rejects if the process ends first. Loading its code may take long. */
  start(options: unknown = {}): Promise<string> {
    this.#send({ start: options });
    return this.#unlessEnded(this.#listening.promise);
  }

  /** Sends an order. Resolves to its result. */
  order(order: string, value?: unknown): Promise<any> {
    const id = ++this.#orders;
    const { promise, resolve } = Promise.withResolvers<unknown>();
    this.#replies.set(id, resolve);
    this.#send({ order, value, id });
    const reply = within(this.#unlessEnded(promise), () => `a reply to ${order}:\n${this.stderr}`);
    reply.catch(() => {}); // for those that do not wait for it
    return reply;
  }
  memory(): Promise<Memory> {
    return this.order("memory");
  }

  #send(message: ToHost): void {
    if (this.child.connected) this.child.send(message, () => {}); // it may be killed before it reads
  }

  #unlessEnded<T>(promise: Promise<T>): Promise<T> {
    const end = this.ended.then(({ code, signal }): never => {
      throw new Error(`The host has ended with ${code ?? signal}:\n${this.stderr}`);
    });
    return Promise.race([promise, end]);
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }
  get stdout(): string {
    return this.#text.stdout;
  }
  get stderr(): string {
    return this.#text.stderr;
  }

  /** Ends the process by a signal. Resolves to how it has ended. */
  async end(signal: NodeJS.Signals = "SIGKILL"): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    this.child.kill(signal);
    return within(this.ended, () => `the end by ${signal}:\n${this.stderr}`);
  }
}

/** Starts a server with the config of a module, as a process that is killed at the end of the test. */
export async function startHost(module: string, options?: unknown, settings?: HostSettings): Promise<Host> {
  const host = new Host(module, settings);
  onTestFinished(() => void host.child.kill("SIGKILL"));
  await host.start(options);
  return host;
}
