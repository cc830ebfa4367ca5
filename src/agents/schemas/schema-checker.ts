import { fork, type ChildProcess } from "node:child_process";
import { busy, type ServeError } from "../../core/error.ts";

export interface CheckTask {
  /** The schema as JSON. */
  readonly schema: string;
  /** The value as JSON. If it is missing, only the schema is checked. */
  readonly value?: string | undefined;
  /** The time limit in milliseconds of CPU time. */
  readonly ms: number;
  /** The time in milliseconds in which the check must get that much CPU time. */
  readonly wallMs: number;
}
/** A problem of the schema, or the type of its root and a mismatch of the value. */
type SchemaVerdict =
  | { readonly problem: string }
  | { readonly root: "object" | "array"; readonly mismatch?: string | undefined };
/** The result of a worker. `slow` means that the check used up its CPU time, `busy` that it did not get that much. */
export type CheckResult = SchemaVerdict | { readonly unfinished: "slow" | "busy" };

export interface SchemaChecker {
  /** Checks a schema, and a value against it. Never blocks the event loop of this process. */
  check(schema: string, value?: string): Promise<SchemaVerdict>;
  close(): Promise<void>;
}
export interface CheckerOptions {
  /** The time limit of one check, in milliseconds of CPU time. */
  readonly schemaMs: number;
}

const maxWorkers = 4;
/** The number of workers that may run slow checks at the same time. The others are reserved for quick ones. */
const maxSlow = 2;
/**
 * The time in milliseconds after which a check counts as slow. It then waits behind all checks that have not run yet.
 */
const quickMs = 20;
/** Wall-clock time of a check per CPU time, at most. With less of a processor, the machine is too busy. */
const maxStretch = 16;
const maxWaiting = 256;
/** The time for which a check may wait for a worker that is up, before each of its two tries. */
const patienceMs = 900;
/** The time for which a check may wait while no worker is up: on a busy machine a start takes long. */
const startMs = 10_000;
/**
 * The time in milliseconds after which a worker without a check is ended. A worker holds about 70 MB, and the next check
 * waits for a new process: ended too early it costs time, too late memory.
 */
const idleWorkerMs = 30_000;
/** The number of starts in a row that may fail before waiting checks are refused. */
const maxFailedStarts = 3;

/**
 * Creates a checker that runs in child processes. A pattern or a chain of `$ref` can take unlimited time, memory or
 * stack, and the text of a schema does not show it. A worker thread could take the whole server down. Workers start on
 * demand, and end after `idleMs` without a check.
 */
export function createSchemaChecker({ schemaMs }: CheckerOptions, idleMs: number = idleWorkerMs): SchemaChecker {
  const waiting: CheckJob[] = [];
  const waitingSlow: CheckJob[] = [];
  /** Every worker process that has not exited, with its state. */
  const workers = new Map<ChildProcess, "starting" | "idle" | "ending" | CheckJob>();
  /** The timers that end idle workers. */
  const idleTimers = new Map<ChildProcess, NodeJS.Timeout>();
  let closed = false;
  let failedStarts = 0;

  async function check(schema: string, value?: string): Promise<SchemaVerdict> {
    if (closed || waiting.length + waitingSlow.length >= maxWaiting) throw tooMany();
    const { promise, resolve } = Promise.withResolvers<CheckResult>();
    const job: CheckJob = {
      schema,
      value,
      isSlow: schemaMs <= quickMs,
      isTimed: isUp(),
      resolve,
    };
    limitWait(job, isUp() ? patienceMs : startMs);
    waiting.push(job);
    next();
    const checked = await promise;
    clearTimeout(job.timer);
    for (const line of [waiting, waitingSlow]) if (line.includes(job)) line.splice(line.indexOf(job), 1);
    if (!("unfinished" in checked)) return checked;
    if (checked.unfinished === "busy") throw tooMany();
    return { problem: `validation takes longer than ${schemaMs} ms` };
  }

  const isUp = (): boolean => [...workers.values()].some((doing) => doing !== "starting" && doing !== "ending");

  /** Refuses all checks that wait. */
  function refuseWaiting(): void {
    for (const job of [...waiting, ...waitingSlow]) job.resolve({ unfinished: "busy" });
  }

  function limitWait(job: CheckJob, ms: number): void {
    clearTimeout(job.timer);
    job.timer = setTimeout(() => job.resolve({ unfinished: "busy" }), ms);
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

  /** Marks a worker as idle, until it gets a check or ends. */
  function rest(worker: ChildProcess): void {
    workers.set(worker, "idle");
    const timer = setTimeout(() => {
      workers.set(worker, "ending"); // before the signal is sent: from now on it gets no check
      worker.kill("SIGKILL");
    }, idleMs);
    idleTimers.set(worker, timer.unref());
  }

  function stopIdleTimer(worker: ChildProcess): void {
    clearTimeout(idleTimers.get(worker));
    idleTimers.delete(worker);
  }

  function run(worker: ChildProcess, job: CheckJob): void {
    stopIdleTimer(worker);
    workers.set(worker, job);
    clearTimeout(job.timer);
    let isGivenUp = false;
    const giveUp = (): void => {
      isGivenUp = true;
      worker.kill("SIGKILL");
    };
    // The worker measures its own CPU time and ends the check. A worker that stays silent was stopped or starved, or compiles
    // a regular expression, which cannot be interrupted. Its schema may be honest.
    const timer = setTimeout(giveUp, schemaMs * (maxStretch + 4));
    const end = (checked: CheckResult): void => {
      clearTimeout(timer);
      worker.off("message", onMessage).off("exit", onExit);
      hold(worker, false);
      if (!("unfinished" in checked) || job.isSlow || closed) return job.resolve(checked);
      job.isSlow = true;
      waitingSlow.push(job);
      limitWait(job, isUp() ? patienceMs : startMs);
    };
    const onMessage = (checked: CheckResult): void => {
      rest(worker);
      end(checked);
      next();
    };
    const onExit = (): void => {
      end(isGivenUp || closed ? { unfinished: "busy" } : { problem: "validation takes too much memory" });
      next();
    };
    hold(worker, true);
    worker.on("message", onMessage).on("exit", onExit);
    const { schema, value, isSlow } = job;
    const ms = isSlow ? schemaMs : quickMs;
    const task: CheckTask = { schema, value, ms, wallMs: ms * maxStretch };
    worker.send(task, (error) => error && giveUp());
  }

  function start(): void {
    const worker = fork(workerFile, { execArgv: ["--max-old-space-size=64"], env, stdio: "ignore" });
    workers.set(worker, "starting");
    const onEnd = (): void => {
      if (workers.get(worker) === "starting") failedStarts++;
      workers.delete(worker);
      stopIdleTimer(worker);
      if (failedStarts < maxFailedStarts) return next();
      failedStarts = 0;
      refuseWaiting();
    };
    worker.on("error", () => (worker.pid === undefined ? onEnd() : worker.kill("SIGKILL")));
    worker.once("exit", onEnd);
    worker.once("message", () => {
      failedStarts = 0;
      // Once per job: a worker that comes up again does not prolong its wait.
      for (const job of isUp() ? [] : waiting) if (!job.isTimed) limitWait(job, patienceMs);
      for (const job of waiting) job.isTimed = true;
      rest(worker);
      hold(worker, false);
      next();
    });
  }

  return {
    check,
    async close() {
      closed = true;
      refuseWaiting();
      const ended = [...workers.keys()].map((worker) => new Promise((resolve) => worker.once("exit", resolve)));
      for (const worker of workers.keys()) worker.kill("SIGKILL");
      await Promise.all(ended);
    },
  };
}

interface CheckJob extends Omit<CheckTask, "ms" | "wallMs"> {
  /** True if the check runs with the full limit, `schemaMs`. The first run has only `quickMs`. */
  isSlow: boolean;
  /** True if it waits for a worker that is up, and no longer for a start. */
  isTimed: boolean;
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

const tooMany = (): ServeError => busy("Too many schema checks are queued", 1);

// Workers get no environment variables, except the one that Windows needs to start a process.
const { SystemRoot } = process.env;
const env = SystemRoot === undefined ? {} : { SystemRoot };

// The build emits the worker as a separate file next to this one.
const workerFile = new URL(import.meta.url.endsWith(".ts") ? "schema-worker.ts" : "schema-worker.mjs", import.meta.url);
