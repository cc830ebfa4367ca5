import { ServeError } from "../core/error.ts";
import { fromJsonText, toJsonText, type JsonText } from "../core/json.ts";
import { withData, type Logger } from "../core/log.ts";
import { validate, type Schema } from "../core/schema.ts";
import type { LazyAbort } from "./abort.ts";
import type { Entry, Resumed } from "./definition.ts";
import type { StepContext } from "./context.ts";
import type { Execution, Fault, LiveEvent, Settled } from "./types.ts";

/** One attempt at one entry: all that its code can ask for. */
export interface Attempt {
  readonly entry: Entry;
  readonly path: string;
  readonly execution: Execution;
  readonly input: JsonText | undefined;
  readonly resumed: Resumed | undefined;
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly suspendSchema: Schema | undefined;
  readonly stepData: (id: string) => JsonText | undefined;
  readonly live: (event: LiveEvent) => void;
  readonly logger: Logger;
  readonly timeoutMs: number;
  readonly valueBytes: number;
  readonly abort: LazyAbort;
}

/** Runs the code and says how it ended; never rejects. Whatever comes after the first ending is dropped. */
export function runAttempt(attempt: Attempt): Promise<Settled> {
  const { promise, resolve } = Promise.withResolvers<Settled>();
  const { entry, abort, timeoutMs } = attempt;
  const fail = (error: unknown): void => settle({ at: Date.now(), error: toAttemptFault(error, attempt) });
  // Unreferenced: a step that ignores its signal must not keep a closed server's process alive.
  const timer = timeoutMs > 0 ? setTimeout(timeOut, timeoutMs).unref() : undefined;
  run().then((value) => settle({ at: Date.now(), value }), fail);
  return promise;

  function settle(settled: Settled): void {
    clearTimeout(timer);
    resolve(settled);
  }

  async function run(): Promise<JsonText | undefined> {
    const context = new Context(attempt, suspend);
    if (entry.inputSchema) context.data = await conform(entry.inputSchema, context.data, "input");
    let value = await entry.code(context);
    if (entry.outputSchema) value = await conform(entry.outputSchema, value, outputs[entry.suffix ?? ""]);
    return toJsonText(value, "result", attempt.valueBytes);
  }

  function timeOut(): void {
    const reason = `Step ${attempt.path} timed out after ${timeoutMs} ms`;
    abort.abort(reason);
    fail(new Error(reason));
  }

  /** Settles the entry by itself: a try/catch around it in user code cannot swallow it. */
  function suspend(reason = `Suspended by step ${attempt.path}`, data?: unknown): Promise<never> {
    if (!entry.suspends) throw new Error(`Step ${attempt.path} cannot suspend here`);
    const kept = attempt.suspendSchema ? conform(attempt.suspendSchema, data, "suspend data") : Promise.resolve(data);
    kept
      .then((value) => toJsonText(value, "suspend data", attempt.valueBytes))
      .then((text) => settle({ at: Date.now(), suspended: { reason: String(reason), data: text } }))
      .catch(fail);
    return new Promise<never>(() => {});
  }

  async function conform(schema: Schema, value: unknown, what: string): Promise<unknown> {
    const result = await validate(schema, value);
    if ("problem" in result) throw new Error(`${attempt.path || "Workflow"}: invalid ${what}: ${result.problem}`);
    return result.value;
  }
}

const outputs = { "": "output", "?": "condition", "<": "input", ">": "result" };

/** A class: most of what it offers is made only when a step reads it. */
class Context implements StepContext {
  readonly #attempt: Attempt;
  readonly suspend: StepContext["suspend"];
  data: unknown;

  constructor(attempt: Attempt, suspend: StepContext["suspend"]) {
    this.#attempt = attempt;
    this.suspend = suspend;
    this.data = fromJsonText(attempt.entry.data);
  }

  get input(): unknown {
    return fromJsonText(this.#attempt.input);
  }
  get resumeData(): unknown {
    return fromJsonText(this.#attempt.resumed?.data);
  }
  get resumedBy(): StepContext["resumedBy"] {
    return this.#attempt.resumed?.by;
  }
  get getStepData(): StepContext["getStepData"] {
    return (id) => fromJsonText(this.#attempt.stepData(id));
  }
  get context(): StepContext["context"] {
    return toContextMap(this.#attempt.execution);
  }
  get executionId(): string {
    return this.#attempt.execution.id;
  }
  get stepId(): string {
    return this.#attempt.path;
  }
  get attempt(): number {
    return this.#attempt.attempt;
  }
  get idempotencyKey(): string {
    return this.#attempt.idempotencyKey;
  }
  get signal(): AbortSignal {
    return this.#attempt.abort.signal;
  }
  get logger(): Logger {
    return toStepLogger(this.#attempt);
  }
  get emit(): StepContext["emit"] {
    return (event) => emitOwn(event, this.#attempt);
  }
}

function toContextMap({ context, userId, conversationId, user }: Execution): Map<string, unknown> {
  const map = new Map(Object.entries(structuredClone(context)));
  if (userId !== undefined) map.set("userId", userId);
  if (conversationId !== undefined) map.set("conversationId", conversationId);
  if (user !== undefined) map.set("user", structuredClone(user));
  return map;
}

const reserved = /^(workflow|step)-/;

function emitOwn(event: { type: string }, { execution, path, live, valueBytes }: Attempt): void {
  if (typeof event?.type !== "string") throw new TypeError("emit: an event needs a type");
  if (reserved.test(event.type)) throw new TypeError(`emit: the type ${event.type} is the server's own`);
  const own = fromJsonText(toJsonText(event, "event", valueBytes)) as { type: string };
  live({ ...own, executionId: execution.id, from: path, timestamp: new Date().toISOString() });
}

function toStepLogger({ logger, execution: { id, workflowId }, path }: Attempt): Logger {
  return withData(logger, { workflowId, executionId: id, stepId: path });
}

function toAttemptFault(error: unknown, attempt: Attempt): Fault {
  toStepLogger(attempt).error("Step failed", { error, attempt: attempt.attempt });
  if (error instanceof ServeError) return { message: error.message, shown: true };
  return { message: error instanceof Error ? error.message : String(error) };
}
