import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import type { Orders } from "./host.ts";
import { readLog, type Line } from "./log.ts";
import { toPath, toRecordName, type Point } from "./points.ts";
import { toLine } from "./turns.ts";
import { patienceMs } from "../../harness/patience.ts";

export interface Reply {
  readonly status: number;
  readonly body: any;
  /** The events of a stream that came whole. */
  readonly events: any[];
  /** Whether it came to its end. */
  readonly ended: boolean;
}
const patience = patienceMs;

/** The server as a process of its own that is killed and started again on the same file. */
export class Lives {
  life = 0;
  readonly #folder: string;
  readonly #host: string;
  /** The next one has its code loaded before it is needed. */
  #spare: ChildProcess;
  #child: ChildProcess | undefined;
  #up = Promise.withResolvers<{ url: string; life: number }>();
  #ended = Promise.withResolvers<void>();
  readonly #broken = Promise.withResolvers<never>();
  #stderr = "";

  constructor(folder: string, host: string = join(import.meta.dirname, "host.ts")) {
    this.#folder = folder;
    this.#host = host;
    this.#broken.promise.catch(() => {});
    this.#spare = this.#spawn();
  }

  #spawn(): ChildProcess {
    const { PATH, HOME, NODE_COMPILE_CACHE = join(this.#folder, "..", "compile-cache") } = process.env;
    const child = spawn(process.execPath, [this.#host], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { PATH, HOME, NODE_COMPILE_CACHE },
    });
    child.stdin!.on("error", () => {}); // it was killed before it read
    child.stderr!.setEncoding("utf8").on("data", (text: string) => (this.#stderr += text));
    return child;
  }

  /** Whoever waits for anything hears of it when this fails. */
  watch<T>(promise: Promise<T>): Promise<T> {
    promise.catch((error: unknown) => this.#broken.reject(error));
    return promise;
  }

  /** What is waited for, unless something fails first or it takes too long. */
  async within<T>(what: string, promise: Promise<T>, ms = patience): Promise<T> {
    const late = new AbortController();
    const tooLate = sleep(ms, undefined, { signal: late.signal }).then(() => {
      throw new Error(`${what} took more than ${ms} ms; the log ends:\n${this.#lastLines()}`);
    });
    try {
      return await Promise.race([promise, this.#broken.promise, tooLate]);
    } finally {
      late.abort();
      tooLate.catch(() => {});
    }
  }

  #lastLines(): string {
    const lines = this.log().slice(-8);
    return lines.map((line) => JSON.stringify(line).slice(0, 300)).join("\n") + this.#stderr;
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    const last = performance.now() + patience;
    while (!holds()) {
      if (performance.now() > last) throw new Error(`${what}: not within ${patience} ms:\n${this.#lastLines()}`);
      await this.within("a moment", sleep(5));
    }
  }

  /** Starts the next life, which ends itself at this point. */
  async start(arm?: Point): Promise<void> {
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
      if (listens) this.#up = Promise.withResolvers(); // else whoever waits for this one waits for the next
      if (signal !== "SIGKILL")
        this.#broken.reject(new Error(`life ${life} ended with ${code ?? signal}:\n${this.#stderr}`));
      ended.resolve();
    });
    if (child.exitCode !== null) throw new Error(`it did not load:\n${this.#stderr}`);
    this.#order({ arm, start: { folder: this.#folder, life } });
    this.#spare = this.#spawn();
    // One that is to end itself may do so before it listens.
    await this.within(`life ${life}: to listen`, Promise.race([up.promise, ended.promise]));
  }

  #order(orders: Orders): void {
    this.#child!.stdin!.write(`${JSON.stringify(orders)}\n`);
  }
  arm(point: Point): void {
    this.#order({ arm: point });
  }
  open(gate: string): void {
    this.#order({ open: gate });
  }

  async kill(): Promise<void> {
    this.#child!.kill("SIGKILL");
    await this.within("to die", this.#ended.promise);
  }

  /** Resolves when the process has ended itself at this point. */
  async died({ point, key }: Point): Promise<void> {
    await this.within(`${point} of ${key}: to be reached`, this.#ended.promise);
    const mark = this.log().findLast(({ what }) => what === "kill");
    if (mark?.what !== "kill" || mark.life !== this.life || mark.point !== point || mark.key !== key)
      throw new Error(`life ${this.life} did not end at ${point} of ${key}`);
  }

  /** An answer; undefined when the process died before anything of it was there. */
  async ask(
    path: string,
    json?: unknown,
    { take, headers = {}, method }: { take?: (event: any) => void; headers?: object; method?: "DELETE" } = {},
  ): Promise<Reply | undefined> {
    const { url, life } = await this.within("the next life", this.#up.promise);
    const init: RequestInit = { headers: { "content-type": "application/json", ...headers } };
    if (json !== undefined) Object.assign(init, { method: "POST", body: JSON.stringify(json) });
    if (method) Object.assign(init, { method });
    let status: number | undefined;
    let text = "";
    const events: any[] = [];
    const reply = (ended: boolean): Reply => {
      const isWhole = ended && text !== "" && !text.startsWith("data: ") && events.length === 0;
      return { status: status!, body: isWhole ? JSON.parse(text) : undefined, events, ended };
    };
    try {
      const response = await this.within(path, fetch(url + path, init));
      ({ status } = response);
      const isStream = response.headers.get("content-type") === "text/event-stream";
      for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        text += chunk;
        if (!isStream) continue;
        const frames = text.split("\n\n");
        text = frames.pop()!;
        for (const frame of frames) {
          const [, data] = /^(?:id: \d+(?:\.end)?\n)?data: (.*)$/.exec(frame) ?? [];
          const event = data === undefined || data === "[DONE]" ? data : JSON.parse(data);
          events.push(event);
          take?.(event);
        }
      }
      return reply(true);
    } catch (error) {
      // A connection that breaks is right only if the process has died.
      if (life === this.life)
        await this.within(`${path}: an answer was not whole (${String(error)}): to die`, this.#ended.promise);
      return status === undefined ? undefined : reply(false);
    }
  }

  log(): Line[] {
    return readLog(join(this.#folder, "log"));
  }

  /** What the file holds of a conversation. The process must have ended. */
  stored(...key: [agent: string, user: string, conversation: string]): string[] {
    const sql = "select body from messages join conversations using (conversation) where key = ? order by n";
    return this.#select(sql, JSON.stringify(key)).flatMap(({ body }) => JSON.parse(body!).map(toLine));
  }

  /** The steps whose value is recorded. The process must have ended. */
  recorded(id: string): string[] {
    const sql = "select key from journal join executions using (number) where id = ? and kind = 'value'";
    return this.#select(sql, id).map(({ key }) => toPath(key!));
  }

  /** The calls of steps in flight that are recorded: the path of the step and the name. The process must have ended. */
  recordedCalls(id: string): string[] {
    const sql = "select key, name from records join executions using (number) where id = ?";
    return this.#select(sql, id).map(({ key, name }) => `${toPath(key!)} ${toRecordName(name!)}`);
  }

  #select(sql: string, value: string): Record<string, string>[] {
    const db = new DatabaseSync(join(this.#folder, "data.db"));
    try {
      return db.prepare(sql).all(value) as Record<string, string>[]; // all that is asked for is text
    } finally {
      db.close();
    }
  }

  async close(): Promise<void> {
    this.#broken.reject(new Error("closed"));
    await Promise.all([this.#child, this.#spare].map((child) => child && end(child)));
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, "close");
  child.kill("SIGKILL");
  await closed;
}
