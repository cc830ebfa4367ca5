import { Worker } from "node:worker_threads";
import { ServeError } from "../core/error.ts";

export interface Task {
  /** As JSON. */
  readonly schema: string;
  /** As JSON; without it only the schema is checked. */
  readonly value?: string | undefined;
}
export type Checked =
  | { readonly problem: string }
  | { readonly root: "object" | "array"; readonly mismatch?: string | undefined };

export interface SchemaChecker {
  /** What is wrong with the schema, or with the value. Whatever they are, this thread does not wait for them. */
  check(schema: string, value?: string): Promise<Checked>;
  close(): Promise<void>;
}

export interface CheckerOptions {
  /** How long one check may take. */
  readonly schemaMs: number;
}

const maxWorkers = 4;
const maxWaiting = 1_000;

/**
 * Checks schemas in threads of their own: a pattern or a chain of `$ref` can take for ever, and no rule about the text of a
 * schema can tell. A thread that is over time is ended.
 */
export function createSchemaChecker({ schemaMs }: CheckerOptions): SchemaChecker {
  const idle: Worker[] = [];
  const waiting: Job[] = [];
  const workers = new Set<Worker>();

  function check(schema: string, value?: string): Promise<Checked> {
    if (waiting.length >= maxWaiting) {
      throw new ServeError(503, "Too many schemas wait to be checked", { headers: [["retry-after", "1"]] });
    }
    return new Promise((resolve, reject) => {
      waiting.push({ task: { schema, value }, resolve, reject });
      next();
    });
  }

  function next(): void {
    if (waiting.length === 0) return;
    const worker = idle.pop();
    if (worker) run(worker, waiting.shift()!);
    else if (workers.size < maxWorkers) start();
  }

  function run(worker: Worker, { task, resolve, reject }: Job): void {
    const timer = setTimeout(() => {
      end();
      resolve({ problem: `checking it takes longer than ${schemaMs} ms` });
      retire(worker);
    }, schemaMs);
    const end = (): void => {
      clearTimeout(timer);
      worker.off("message", onMessage).off("error", onError);
      worker.unref();
    };
    const onMessage = (checked: Checked): void => {
      end();
      idle.push(worker);
      resolve(checked);
      next();
    };
    const onError = (error: unknown): void => {
      end();
      // It has run out of memory: no schema that anybody means does that.
      if ((error as { code?: string }).code === "ERR_WORKER_OUT_OF_MEMORY")
        resolve({ problem: "it takes too much memory" });
      else reject(error as Error);
      retire(worker);
    };
    worker.ref();
    worker.on("message", onMessage).on("error", onError);
    worker.postMessage(task);
  }

  function start(): void {
    const worker = new Worker(workerUrl, { resourceLimits: { maxOldGenerationSizeMb: 64 } });
    workers.add(worker);
    const onError = (error: unknown): void => {
      retire(worker);
      for (const { reject } of waiting.splice(0)) reject(error as Error);
    };
    worker.once("error", onError);
    worker.once("message", () => {
      worker.off("error", onError).unref();
      idle.push(worker);
      next();
    });
  }

  function retire(worker: Worker): void {
    workers.delete(worker);
    void worker.terminate();
    next();
  }

  return {
    check,
    async close() {
      await Promise.all([...workers].map((worker) => worker.terminate()));
    },
  };
}

interface Job {
  readonly task: Task;
  readonly resolve: (checked: Checked) => void;
  readonly reject: (error: Error) => void;
}

// As built, the thread's code is a file of its own beside this one.
const workerUrl = new URL(import.meta.url.endsWith(".ts") ? "schema-worker.ts" : "schema-worker.mjs", import.meta.url);
