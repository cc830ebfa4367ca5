import { fork, type ChildProcess } from "node:child_process";
import { busy, type ServeError } from "../../core/error.ts";

export interface CheckTask {
  /** The schema as JSON. */
  readonly schema: string;
  /** The value as JSON. If it is missing, only the schema is checked. */
  readonly value?: string | undefined;
  /** The time limit in milliseconds of CPU time. */
  readonly ms: number;
}
/** A problem of the schema, or the type of its root and a mismatch of the value. */
type SchemaVerdict =
  | { readonly problem: string }
  | { readonly root: "object" | "array"; readonly mismatch?: string | undefined };
/** The result of a worker. `busy` means that the machine had too little CPU time for the check. */
export type CheckResult = SchemaVerdict | { readonly unfinished: "slow" | "busy" };

export interface SchemaChecker {
  /** Checks a schema, and a value against it. Never blocks the event loop of this process. */
  check(schema: string, value?: string): Promise<SchemaVerdict>;
  close(): Promise<void>;
}
export interface CheckerOptions {
  /** The time limit of one check, in milliseconds. */
  readonly schemaMs: number;
}

const maxWorkers = 4;
/** The number of workers that may run slow checks at the same time. The others are reserved for quick ones. */
const maxSlow = 2;
/**
 * The time in milliseconds after which a check counts as slow. It then waits behind all checks that have not run yet.
 */
const quickMs = 20;
const maxWaiting = 256;
/**
 * The time in milliseconds that a check may wait for a running worker. A check that has started ends by its own limit.
 */
const patienceMs = 900;
/** The time in milliseconds that a check may wait for the first worker to start. On a busy machine, that takes long. */
const startMs = 10_000;

/**
 * Creates a checker that runs in child processes. A pattern or a chain of `$ref` can take unlimited time, memory or
 * stack, and the text of a schema does not show it. A worker thread could take the whole server down.
 */
export function createSchemaChecker({ schemaMs }: CheckerOptions): SchemaChecker {
  const waiting: CheckJob[] = [];
  const waitingSlow: CheckJob[] = [];
  /** Every worker process that has not exited, with its state. */
  const workers = new Map<ChildProcess, "starting" | "idle" | CheckJob>();
  let closed = false;

  async function check(schema: string, value?: string): Promise<SchemaVerdict> {
    if (closed || waiting.length + waitingSlow.length >= maxWaiting) throw tooMany();
    const { promise, resolve } = Promise.withResolvers<CheckResult>();
    const job: CheckJob = { schema, value, isSlow: schemaMs <= quickMs, isRunning: false, isLate: false, resolve };
    limitWait(job, [...workers.values()].some((doing) => doing !== "starting") ? patienceMs : startMs);
    waiting.push(job);
    next();
    const checked = await promise;
    clearTimeout(job.timer);
    for (const line of [waiting, waitingSlow]) if (line.includes(job)) line.splice(line.indexOf(job), 1);
    if (!("unfinished" in checked)) return checked;
    if (checked.unfinished === "busy") throw tooMany();
    return { problem: `checking it takes longer than ${schemaMs} ms` };
  }

  function limitWait(job: CheckJob, ms: number): void {
    clearTimeout(job.timer);
    job.timer = setTimeout(() => {
      job.isLate = true;
      if (!job.isRunning) job.resolve({ unfinished: "busy" });
    }, ms);
  }

  /** Gives waiting checks to idle workers, and starts a worker if none is idle. */
  function next(): void {
    const slow = [...workers.values()].filter((doing) => typeof doing === "object" && doing.isSlow).length;
    const line = waiting.length > 0 ? waiting : slow < maxSlow ? waitingSlow : [];
    if (line.length === 0 || closed) return;
    const [worker] = [...workers].find(([, doing]) => doing === "idle") ?? [];
    if (!worker) return void (workers.size < maxWorkers && start());
    run(worker, line.shift()!);
    next();
  }

  function run(worker: ChildProcess, job: CheckJob): void {
    workers.set(worker, job);
    job.isRunning = true;
    // The worker enforces the limit itself, except while a regular expression is compiled: nothing can interrupt that.
    const timer = setTimeout(() => worker.kill("SIGKILL"), schemaMs * 4);
    const end = (checked: CheckResult): void => {
      clearTimeout(timer);
      worker.off("message", onMessage).off("exit", onExit);
      hold(worker, false);
      job.isRunning = false;
      if (!("unfinished" in checked) || job.isSlow) return job.resolve(checked);
      if (job.isLate) return job.resolve({ unfinished: "busy" });
      job.isSlow = true;
      waitingSlow.push(job);
    };
    const onMessage = (checked: CheckResult): void => {
      workers.set(worker, "idle");
      end(checked);
      next();
    };
    const onExit = (): void => end({ problem: "checking it takes too much time or memory" });
    hold(worker, true);
    worker.on("message", onMessage).on("exit", onExit);
    const { schema, value, isSlow } = job;
    const task: CheckTask = { schema, value, ms: isSlow ? schemaMs : quickMs };
    worker.send(task, (error) => error && worker.kill("SIGKILL"));
  }

  function start(): void {
    const worker = fork(workerFile, { execArgv: ["--max-old-space-size=64"], env, stdio: "ignore" });
    workers.set(worker, "starting");
    worker.on("error", () => (worker.pid === undefined ? workers.delete(worker) : worker.kill("SIGKILL")));
    worker.once("exit", () => {
      workers.delete(worker);
      next();
    });
    worker.once("message", () => {
      const isFirst = ![...workers.values()].some((doing) => doing !== "starting");
      if (isFirst) for (const job of waiting) limitWait(job, patienceMs);
      workers.set(worker, "idle");
      hold(worker, false);
      next();
    });
  }

  return {
    check,
    async close() {
      closed = true;
      const ended = [...workers.keys()].map((worker) => new Promise((resolve) => worker.once("exit", resolve)));
      for (const worker of workers.keys()) worker.kill("SIGKILL");
      await Promise.all(ended);
    },
  };
}

interface CheckJob extends Omit<CheckTask, "ms"> {
  /** True if the check runs with the full limit, `schemaMs`. The first run has only `quickMs`. */
  isSlow: boolean;
  isRunning: boolean;
  /** True if the check has waited too long to be queued again. */
  isLate: boolean;
  timer?: NodeJS.Timeout;
  readonly resolve: (checked: CheckResult) => void;
}

/** Keeps this process alive for a busy worker, but not for an idle one. */
function hold(worker: ChildProcess, isBusy: boolean): void {
  for (const handle of [worker, worker.channel]) {
    if (isBusy) handle?.ref();
    else handle?.unref();
  }
}

const tooMany = (): ServeError => busy("Too many schemas wait to be checked", 1);

// Workers get no environment variables, except the one that Windows needs to start a process.
const { SystemRoot } = process.env;
const env = SystemRoot === undefined ? {} : { SystemRoot };

// The build emits the worker as a separate file next to this one.
const workerFile = new URL(import.meta.url.endsWith(".ts") ? "schema-worker.ts" : "schema-worker.mjs", import.meta.url);
