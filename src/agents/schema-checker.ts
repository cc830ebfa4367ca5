import { fork, type ChildProcess } from "node:child_process";
import { ServeError } from "../core/error.ts";

export interface Task {
  /** As JSON. */
  readonly schema: string;
  /** As JSON; without it only the schema is checked. */
  readonly value?: string | undefined;
  /** How long it may take. */
  readonly ms: number;
}
export type Checked =
  | { readonly problem: string }
  | { readonly root: "object" | "array"; readonly mismatch?: string | undefined }
  /** The machine had no time for it. */
  | { readonly busy: true };

export interface SchemaChecker {
  /** What is wrong with the schema, or with the value. Whatever they are, this process does not wait for them. */
  check(schema: string, value?: string): Promise<Exclude<Checked, { busy: true }>>;
  close(): Promise<void>;
}

export interface CheckerOptions {
  /** How long one check may take. */
  readonly schemaMs: number;
}

const maxWorkers = 4;
const maxWaiting = 256;
/** How long a check may wait for its turn. */
const patienceMs = 1_000;

/**
 * Checks schemas in processes of their own: a pattern or a chain of `$ref` can take for ever, all memory, or the stack, and
 * no rule about the text of a schema can tell. A thread would take the server with it.
 */
export function createSchemaChecker({ schemaMs }: CheckerOptions): SchemaChecker {
  const idle: ChildProcess[] = [];
  const waiting: Job[] = [];
  /** All that have not ended. */
  const workers = new Set<ChildProcess>();
  let closed = false;

  async function check(schema: string, value?: string): Promise<Exclude<Checked, { busy: true }>> {
    if (closed || waiting.length >= maxWaiting) throw busy();
    const checked = await new Promise<Checked>((resolve) => {
      const job: Job = { task: { schema, value, ms: schemaMs }, resolve, late: setTimeout(giveUp, patienceMs) };
      function giveUp(): void {
        waiting.splice(waiting.indexOf(job), 1);
        resolve({ busy: true });
      }
      waiting.push(job);
      next();
    });
    if ("busy" in checked) throw busy();
    return checked;
  }

  function next(): void {
    if (waiting.length === 0) return;
    const worker = idle.pop();
    if (worker) run(worker, waiting.shift()!);
    else if (workers.size < maxWorkers) start();
  }

  function run(worker: ChildProcess, { task, resolve, late }: Job): void {
    clearTimeout(late);
    // It stops by itself, but for what nothing stops: the compiler of regular expressions.
    const timer = setTimeout(() => worker.kill("SIGKILL"), schemaMs * 4);
    const end = (checked: Checked): void => {
      clearTimeout(timer);
      worker.off("message", onMessage).off("exit", onExit);
      hold(worker, false);
      resolve(checked);
    };
    const onMessage = (checked: Checked): void => {
      end(checked);
      idle.push(worker);
      next();
    };
    const onExit = (): void => end({ problem: "checking it takes too much time or memory" });
    hold(worker, true);
    worker.on("message", onMessage).on("exit", onExit);
    worker.send(task, (error) => error && worker.kill("SIGKILL"));
  }

  function start(): void {
    // Nothing of this process's environment is its business.
    const worker = fork(workerFile, { execArgv: ["--max-old-space-size=64"], env: {}, stdio: "ignore" });
    workers.add(worker);
    worker.on("error", () => worker.kill("SIGKILL"));
    worker.once("exit", () => {
      workers.delete(worker);
      if (idle.includes(worker)) idle.splice(idle.indexOf(worker), 1);
      next();
    });
    worker.once("message", () => {
      hold(worker, false);
      idle.push(worker);
      next();
    });
  }

  return {
    check,
    async close() {
      closed = true;
      const ended = [...workers].map((worker) => new Promise((resolve) => worker.once("exit", resolve)));
      for (const worker of workers) worker.kill("SIGKILL");
      await Promise.all(ended);
    },
  };
}

interface Job {
  readonly task: Task;
  readonly resolve: (checked: Checked) => void;
  readonly late: NodeJS.Timeout;
}

/** A worker that has nothing to do must not keep this process alive. */
function hold(worker: ChildProcess, isBusy: boolean): void {
  if (isBusy) worker.ref();
  else worker.unref();
  if (isBusy) worker.channel?.ref();
  else worker.channel?.unref();
}

const busy = (): ServeError =>
  new ServeError(503, "Too many schemas wait to be checked", { headers: [["retry-after", "1"]] });

// As built, its code is a file of its own beside this one.
const workerFile = new URL(import.meta.url.endsWith(".ts") ? "schema-worker.ts" : "schema-worker.mjs", import.meta.url);
