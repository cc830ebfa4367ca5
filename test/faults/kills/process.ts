import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RestateBackendOptions } from "../../../src/backends/restate/define.ts";
import { Lives } from "../../harness/lives.ts";
import { patienceMs } from "../../harness/patience.ts";
import { Log, type Mark } from "./log.ts";
import { toMendedFile } from "./mended.ts";
import { toName, type Point } from "./points.ts";

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

/** The server of `workload-app.ts`, killed and started again on the same file or cluster. */
export class ServedLives extends Lives implements Serving {
  readonly log: Log;
  readonly commitsLate: boolean;
  readonly hearsLate: boolean;

  constructor(folder: string, cluster?: RestateBackendOptions) {
    super(folder, join(import.meta.dirname, "workload-app.ts"), { cluster });
    this.hearsLate = cluster !== undefined;
    this.commitsLate = cluster !== undefined; // Restate has the call, and carries it out in the next life
    this.log = new Log(join(folder, "log"));
  }

  get file(): string {
    return join(this.folder, "data.db");
  }

  /** Lets the process end itself at this point. */
  arm(point: Point): void {
    void this.order("arm", point);
  }

  mend(executionId: string): void {
    writeFileSync(toMendedFile(this.folder, executionId), "");
  }

  /** Resolves when the process has ended itself at this point. */
  async died(point: Point): Promise<Mark> {
    const { life } = this;
    await this.hasEnded(`${toName(point)}: to be reached`);
    this.log.now();
    const mark = this.log.marks.at(-1);
    if (mark?.life !== life || mark.point !== toName(point))
      throw new Error(`life ${life} did not end at ${toName(point)}`);
    return mark;
  }

  /** An answer, or undefined when the process died before it was there. */
  async ask(path: string, request: Request = {}): Promise<Reply | undefined> {
    const opened = await this.#send(path, request);
    if (!opened) return undefined;
    const { response, life, status, executionId } = opened;
    try {
      return { status, executionId, body: await response.json() };
    } catch (error) {
      return this.sawDeath(life, error);
    }
  }

  /** A stream, or undefined when the process died before it began. */
  async open(path: string, request: Request = {}): Promise<Stream | undefined> {
    const opened = await this.#send(path, request);
    if (!opened) return undefined;
    const { response, life, status, executionId } = opened;
    return { status, executionId, frames: this.#frames(response, life) };
  }

  async *#frames(response: Response, life: number): AsyncGenerator<string> {
    try {
      yield* readFrames(response);
    } catch (error) {
      await this.sawDeath(life, error);
    }
  }

  async #send(path: string, { method = "GET", json, headers = {} }: Request) {
    const init: RequestInit = { method, headers, signal: AbortSignal.timeout(patienceMs) };
    if (json !== undefined) {
      init.body = JSON.stringify(json);
      init.headers = { ...headers, "content-type": "application/json" };
    }
    const sent = await this.fetch(path, init);
    if (!sent) return undefined;
    const { response, life } = sent;
    const executionId = response.headers.get("x-execution-id") ?? undefined;
    return { response, life, status: response.status, executionId };
  }
}

/** The frames of a stream that came whole. */
export async function* readFrames({ body }: Response): AsyncGenerator<string> {
  let text = "";
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const frames = (text + chunk).split("\n\n");
    text = frames.pop()!;
    yield* frames;
  }
}
