import { fork, type ChildProcess } from "node:child_process";
import { busy, type ServeError } from "../../core/error.ts";

export interface CheckTask {
  /** As JSON. */
  readonly schema: string;
  /** As JSON; without it only the schema is checked. */
  readonly value?: string | undefined;
  /** How long it may take. */
  readonly ms: number;
}
/** What is wrong with the schema, or with the value. */
type SchemaVerdict =
  | { readonly problem: string }
  | { readonly root: "object" | "array"; readonly mismatch?: string | undefined };
/** `busy`: the machine had no time for it. */
export type CheckResult = SchemaVerdict | { readonly unfinished: "slow" | "busy" };

export interface SchemaChecker {
  /** Whatever they are, this process does not wait for them. */
  check(schema: string, value?: string): Promise<SchemaVerdict>;
  close(): Promise<void>;
}
export interface CheckerOptions {
  /** How long one check may take. */
  readonly schemaMs: number;
}

const maxWorkers = 4;
/** So many may be at checks that take long; the others are for those that do not. */
const maxSlow = 2;
/** What is not done in this time takes long, and waits behind all that has not been tried. */
const quickMs = 20;
const maxWaiting = 256;
/** The time for which a check may wait for a worker that is up, before each of its two tries. */
const patienceMs = 900;
/** The time for which a check may wait while no worker is up: on a busy machine a start takes long. */
const startMs = 10_000;
/** The number of starts in a row that may fail before waiting checks are refused. */
const maxFailedStarts = 3;

/**
 * Checks schemas in processes of their own: a pattern or a chain of `$ref` can take for ever, all memory, or the stack, and
 * no rule about the text of a schema can tell. A thread would take the server with it.
 */
export function createSchemaChecker({ schemaMs }: CheckerOptions): SchemaChecker {
  const waiting: CheckJob[] = [];
  const waitingSlow: CheckJob[] = [];
  /** All that have not ended, and what each is doing. */
  const workers = new Map<ChildProcess, "starting" | "idle" | CheckJob>();
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
    return { problem: `checking it takes longer than ${schemaMs} ms` };
  }

  const isUp = (): boolean => [...workers.values()].some((doing) => doing !== "starting");

  /** Refuses all checks that wait. */
  function refuseWaiting(): void {
    for (const job of [...waiting, ...waitingSlow]) job.resolve({ unfinished: "busy" });
  }

  function limitWait(job: CheckJob, ms: number): void {
    clearTimeout(job.timer);
    job.timer = setTimeout(() => job.resolve({ unfinished: "busy" }), ms);
  }

  /** Gives every worker something to do, and starts one where that would help. */
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
    clearTimeout(job.timer);
    // It stops by itself, but for what nothing stops: the compiler of regular expressions.
    const timer = setTimeout(() => worker.kill("SIGKILL"), schemaMs * 4);
    const end = (checked: CheckResult): void => {
      clearTimeout(timer);
      worker.off("message", onMessage).off("exit", onExit);
      hold(worker, false);
      if (!("unfinished" in checked) || job.isSlow) return job.resolve(checked);
      job.isSlow = true;
      waitingSlow.push(job);
      limitWait(job, patienceMs);
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
    const onEnd = (): void => {
      if (workers.get(worker) === "starting") failedStarts++;
      workers.delete(worker);
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
      workers.set(worker, "idle");
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

interface CheckJob extends Omit<CheckTask, "ms"> {
  /** Whether it has been tried, and was not done at once. */
  isSlow: boolean;
  /** Whether it waits for a worker that is up, and no longer for a start. */
  isTimed: boolean;
  timer?: NodeJS.Timeout;
  readonly resolve: (checked: CheckResult) => void;
}

/** A worker that has nothing to do must not keep this process alive. */
function hold(worker: ChildProcess, isBusy: boolean): void {
  for (const handle of [worker, worker.channel]) {
    if (isBusy) handle?.ref();
    else handle?.unref();
  }
}

const tooMany = (): ServeError => busy("Too many schemas wait to be checked", 1);

// Nothing of this process's environment is its business, but for what Windows needs to start it.
const { SystemRoot } = process.env;
const env = SystemRoot === undefined ? {} : { SystemRoot };

// As built, its code is a file of its own beside this one.
const workerFile = new URL(import.meta.url.endsWith(".ts") ? "schema-worker.ts" : "schema-worker.mjs", import.meta.url);
