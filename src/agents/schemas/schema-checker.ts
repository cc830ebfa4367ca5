import { fork, type ChildProcess } from "node:child_process";
import { busy, type ServeError } from "../../core/error.ts";

export interface CheckTask {
  /** The schema as JSON. */
  readonly schema: string;
  /** The value as JSON. Without it, only the schema is checked. */
  readonly value?: string | undefined;
  /** The CPU time limit in milliseconds. */
  readonly ms: number;
  /** The wall-clock time in milliseconds in which the check must get this CPU time. */
  readonly wallMs: number;
}
/** A problem of the schema; or the type of its root, and a mismatch of the value. */
type SchemaVerdict =
  | { readonly problem: string }
  | { readonly root: "object" | "array"; readonly mismatch?: string | undefined };
/** The result of a worker. `slow`: the check used up its CPU time. `busy`: it did not get that much. */
export type CheckResult = SchemaVerdict | { readonly unfinished: "slow" | "busy" };

export interface CheckerOptions {
  /** The CPU time limit of one check, in milliseconds. */
  readonly schemaMs: number;
}

const maxWorkers = 4;
/** Max workers with slow checks. The others are reserved for quick ones. */
const maxSlow = 2;
/** The CPU time in milliseconds after which a check counts as slow. It then waits behind all new checks. */
const quickMs = 20;
/** Max wall-clock time of a check per CPU time. With a smaller share of a processor, the machine is too busy. */
const maxStretch = 16;
const maxWaiting = 256;
/** Max wait for a worker while one is up, before each of the two tries. */
const patienceMs = 900;
/** Max wait while no worker is up: on a busy machine a start takes long. */
const startMs = 10_000;
/**
 * The idle time in milliseconds after which a worker is killed. A worker holds about 70 MB, and the next check waits for a new
 * process: killed too early it costs time, too late memory.
 */
const idleWorkerMs = 30_000;
/** Max failed starts in a row. Beyond it, waiting checks are refused. */
const maxFailedStarts = 3;

/**
 * Checks schemas in child processes. A pattern or a chain of `$ref` can take unlimited time, memory or stack, and the text of
 * a schema does not show it. A worker thread could take the whole server down. Workers start on demand, and are killed after
 * `idleMs` without a check.
 */
export class SchemaChecker {
  readonly #schemaMs: number;
  readonly #idleMs: number;
  /** New checks. */
  readonly #waiting = new Set<CheckJob>();
  /** The checks that were slow, and wait for their second try. */
  readonly #waitingSlow = new Set<CheckJob>();
  /** All live worker processes. */
  readonly #workers = new Map<ChildProcess, "starting" | "idle" | "ending" | CheckJob>();
  /** The timers that kill idle workers. */
  readonly #idleTimers = new Map<ChildProcess, NodeJS.Timeout>();
  #isClosed = false;
  #failedStarts = 0;

  constructor({ schemaMs }: CheckerOptions, idleMs: number = idleWorkerMs) {
    this.#schemaMs = schemaMs;
    this.#idleMs = idleMs;
  }

  /** Checks a schema, and a value against it. Never blocks the event loop of this process. */
  async check(schema: string, value?: string): Promise<SchemaVerdict> {
    if (this.#isClosed || this.#waiting.size + this.#waitingSlow.size >= maxWaiting) throw tooMany();
    const { promise, resolve } = Promise.withResolvers<CheckResult>();
    const job: CheckJob = { schema, value, isSlow: this.#schemaMs <= quickMs, isTimed: false, resolve };
    this.#limitWait(job);
    this.#waiting.add(job);
    this.#next();
    const result = await promise;
    clearTimeout(job.timer);
    this.#waiting.delete(job);
    this.#waitingSlow.delete(job);
    if (!("unfinished" in result)) return result;
    if (result.unfinished === "busy") throw tooMany();
    return { problem: `validation takes longer than ${this.#schemaMs} ms` };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#refuseWaiting();
    const exits = [...this.#workers.keys()].map((worker) => new Promise((resolve) => worker.once("exit", resolve)));
    for (const worker of this.#workers.keys()) worker.kill("SIGKILL");
    await Promise.all(exits);
  }

  #refuseWaiting(): void {
    for (const job of [...this.#waiting, ...this.#waitingSlow]) job.resolve({ unfinished: "busy" });
  }

  #limitWait(job: CheckJob): void {
    clearTimeout(job.timer);
    job.isTimed = [...this.#workers.values()].some((state) => state !== "starting" && state !== "ending");
    job.timer = setTimeout(() => job.resolve({ unfinished: "busy" }), job.isTimed ? patienceMs : startMs);
  }

  /** Gives waiting checks to idle workers, and starts a worker if none is idle. */
  #next(): void {
    const slow = [...this.#workers.values()].filter((state) => typeof state === "object" && state.isSlow).length;
    const line = this.#waiting.size > 0 || slow >= maxSlow ? this.#waiting : this.#waitingSlow;
    const [job] = line;
    if (!job || this.#isClosed) return;
    const [worker] = [...this.#workers].find(([, state]) => state === "idle") ?? [];
    if (!worker) return void (this.#workers.size < maxWorkers && this.#start());
    line.delete(job);
    this.#run(worker, job);
    this.#next();
  }

  #start(): void {
    const worker = fork(workerFile, { execArgv: ["--max-old-space-size=64"], env, stdio: "ignore" });
    this.#workers.set(worker, "starting");
    const onExit = (): void => {
      if (this.#workers.get(worker) === "starting") this.#failedStarts++;
      this.#workers.delete(worker);
      clearTimeout(this.#idleTimers.get(worker));
      this.#idleTimers.delete(worker);
      if (this.#failedStarts < maxFailedStarts) return this.#next();
      this.#failedStarts = 0;
      this.#refuseWaiting();
    };
    worker.on("error", () => (worker.pid === undefined ? onExit() : worker.kill("SIGKILL")));
    worker.once("exit", onExit);
    worker.once("message", () => {
      this.#failedStarts = 0;
      this.#rest(worker);
      // Once per job: a worker that comes up again does not prolong its wait.
      for (const job of this.#waiting) if (!job.isTimed) this.#limitWait(job);
      this.#next();
    });
  }

  /** Makes a worker idle, until it gets a check or is killed. */
  #rest(worker: ChildProcess): void {
    this.#workers.set(worker, "idle");
    keepAlive(worker, false);
    const timer = setTimeout(() => {
      this.#workers.set(worker, "ending"); // before the signal is sent: from now on it gets no check
      worker.kill("SIGKILL");
    }, this.#idleMs);
    this.#idleTimers.set(worker, timer.unref());
  }

  #run(worker: ChildProcess, job: CheckJob): void {
    clearTimeout(this.#idleTimers.get(worker));
    clearTimeout(job.timer);
    this.#workers.set(worker, job);
    keepAlive(worker, true);
    let isGivenUp = false;
    const giveUp = (): void => {
      isGivenUp = true;
      worker.kill("SIGKILL");
    };
    // The worker measures its own CPU time and ends the check. A silent worker was stopped or starved, or compiles a regular
    // expression, which cannot be interrupted. Its schema may be honest.
    const timer = setTimeout(giveUp, this.#schemaMs * (maxStretch + 4));
    const end = (result: CheckResult): void => {
      clearTimeout(timer);
      worker.off("message", onMessage).off("exit", onExit);
      if (!("unfinished" in result) || job.isSlow || this.#isClosed) job.resolve(result);
      else {
        job.isSlow = true;
        this.#waitingSlow.add(job);
        this.#limitWait(job);
      }
      this.#next();
    };
    const onMessage = (result: CheckResult): void => {
      this.#rest(worker);
      end(result);
    };
    const onExit = (): void =>
      end(isGivenUp || this.#isClosed ? { unfinished: "busy" } : { problem: "validation takes too much memory" });
    worker.on("message", onMessage).on("exit", onExit);
    const { schema, value, isSlow } = job;
    const ms = isSlow ? this.#schemaMs : quickMs;
    const task: CheckTask = { schema, value, ms, wallMs: ms * maxStretch };
    worker.send(task, (error) => error && giveUp());
  }
}

interface CheckJob extends Omit<CheckTask, "ms" | "wallMs"> {
  /** True if the check runs with the full limit, `schemaMs`. The first run has only `quickMs`. */
  isSlow: boolean;
  /** True if it waits for a worker that is up, and no longer for a start. */
  isTimed: boolean;
  timer?: NodeJS.Timeout;
  readonly resolve: (result: CheckResult) => void;
}

/** Keeps this process alive for a busy worker, but not for an idle one. */
function keepAlive(worker: ChildProcess, isBusy: boolean): void {
  for (const handle of [worker, worker.channel]) {
    if (isBusy) handle?.ref();
    else handle?.unref();
  }
}

const tooMany = (): ServeError => busy("Too many schema checks are queued", 1);

// Workers get no environment variables, except the one that Windows needs to start a process.
const { SystemRoot } = process.env;
const env = SystemRoot === undefined ? {} : { SystemRoot };

// The build emits the worker as a separate file next to this one.
const workerFile = new URL(import.meta.url.endsWith(".ts") ? "schema-worker.ts" : "schema-worker.mjs", import.meta.url);
