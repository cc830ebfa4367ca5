import { ServeError, toErrorMessage } from "../../core/error.ts";
import { fromJsonText, toJsonText, type JsonText } from "../../core/json.ts";
import { withIds, type Logger } from "../../core/log.ts";
import { validate, type Schema } from "../../core/schema.ts";
import { runOutOfScope } from "../../core/scope.ts";
import { runInSpan } from "../../core/trace.ts";
import type { Entry, EntryAttempt, Resumed, StepAsker } from "../definition.ts";
import { toContextMap } from "../../core/caller.ts";
import type { Agent, AskAgent, AskOptions, Prompt } from "../ask.ts";
import type { StepContext } from "../step-context.ts";
import type { WalkSpans } from "./spans.ts";
import type { Execution, Fault } from "../execution.ts";
import type { LiveEvent } from "../events.ts";
import type { EntryResult } from "../walk/walk.ts";

/** What all attempts of one walk share. */
export interface AttemptHost {
  readonly execution: Execution;
  readonly logger: Logger;
  readonly spans: WalkSpans;
  readonly ask: AskAgent;
  readonly live: (event: LiveEvent) => void;
  readonly stepTimeoutMs: number;
  readonly stepValueBytes: number;
}

/** One attempt at one entry. */
export interface AttemptOptions {
  readonly entry: Entry;
  readonly key: string;
  readonly path: string;
  readonly delay: number;
  readonly input: JsonText | undefined;
  readonly resumed: Resumed | undefined;
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly suspendSchema: Schema | undefined;
  readonly stepData: (id: string) => JsonText | undefined;
}

/** Runs the code and says how it ended. Whatever comes after the first ending is dropped. */
export class Attempt implements EntryAttempt, StepAsker {
  readonly key: string;
  readonly delay: number;
  readonly host: AttemptHost;
  readonly options: AttemptOptions;
  #ended: ((settled: EntryResult) => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #controller: AbortController | undefined;
  #abortReason: string | undefined;

  constructor(host: AttemptHost, options: AttemptOptions) {
    this.key = options.key;
    this.delay = options.delay;
    this.host = host;
    this.options = options;
  }

  run(ended: (settled: EntryResult) => void): void {
    this.#ended = ended;
    if (this.#timeoutMs > 0) armSoon(this);
    const { execution, spans } = this.host;
    const { path: stepId, attempt } = this.options;
    const { id: executionId, workflowId, userId, conversationId } = execution;
    // The request that happens to be written beside it has nothing to do with it.
    const scope = { workflowId, executionId, stepId, userId, conversationId };
    void runInSpan(spans.open(stepId, attempt), () => this.#run(), scope);
  }

  async #run(): Promise<void> {
    let settled: EntryResult;
    try {
      const value = await this.#execute();
      settled = { at: Date.now(), value };
    } catch (error) {
      settled = this.#toFailure(error);
    }
    this.#settle(settled);
  }

  async #execute(): Promise<JsonText | undefined> {
    const { entry } = this.options;
    const context = new Context(this);
    if (entry.inputSchema) context.data = await this.#conform(entry.inputSchema, context.data, "input");
    let value = await entry.code(context, this);
    if (entry.outputSchema) value = await this.#conform(entry.outputSchema, value, outputs[entry.suffix ?? ""]);
    return toJsonText(value, "result", this.host.stepValueBytes);
  }

  ask(agent: Agent, prompt: Prompt, options: AskOptions): Promise<unknown> {
    const { ask, execution } = this.host;
    return ask(agent, prompt, { ...options, execution });
  }

  #settle(settled: EntryResult): void {
    const ended = this.#ended;
    this.#ended = undefined;
    if (this.#timer) clearTimeout(this.#timer);
    ended?.(settled);
  }

  #toFailure(error: unknown): EntryResult {
    return { at: Date.now(), error: toFault(error, this) };
  }

  get #timeoutMs(): number {
    return this.options.entry.timeout ?? this.host.stepTimeoutMs;
  }

  /** Unreferenced: a step that ignores its signal must not keep a closed server's process alive. */
  arm(): void {
    if (this.#ended) this.#timer = setTimeout(() => this.#timeOut(), this.#timeoutMs).unref();
  }

  #timeOut(): void {
    const reason = `Step ${this.options.path} timed out after ${this.#timeoutMs} ms`;
    this.abort(reason);
    this.#settle(this.#toFailure(new Error(reason)));
  }

  /** The reason is in words: an Error with its stack is dear, and mostly nobody listens. */
  abort(reason: string): void {
    this.#abortReason ??= reason;
    this.#signalAbort();
  }

  /** Made only when somebody asks for it: most steps never do. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    this.#signalAbort();
    return this.#controller.signal;
  }

  #signalAbort(): void {
    if (this.#abortReason === undefined || !this.#controller || this.#controller.signal.aborted) return;
    this.#controller.abort(new Error(this.#abortReason));
  }

  /** Settles the entry by itself: a try/catch around it in user code cannot swallow it. */
  suspend(reason = `Suspended by step ${this.options.path}`, data?: unknown): Promise<never> {
    const { entry, path, suspendSchema } = this.options;
    if (!entry.suspends) throw new Error(`Step ${path} cannot suspend here`);
    const kept = suspendSchema ? this.#conform(suspendSchema, data, "suspend data") : Promise.resolve(data);
    kept
      .then((value) => toJsonText(value, "suspend data", this.host.stepValueBytes))
      .then((text) => this.#settle({ at: Date.now(), suspended: { reason: String(reason), data: text } }))
      .catch((error) => this.#settle(this.#toFailure(error)));
    return new Promise<never>(() => {});
  }

  async #conform(schema: Schema, value: unknown, what: string): Promise<unknown> {
    const result = await validate(schema, value);
    if ("problem" in result) throw new Error(`${this.options.path || "Workflow"}: invalid ${what}: ${result.problem}`);
    return result.value;
  }
}

const outputs = { "": "output", "?": "condition", "<": "input", ">": "result" };

let fresh: Attempt[] = [];

/** Most attempts are over within this turn of the event loop: they need no timer. */
function armSoon(attempt: Attempt): void {
  if (fresh.push(attempt) > 1) return;
  runOutOfScope(() => setImmediate(armFresh));
}
function armFresh(): void {
  const attempts = fresh;
  fresh = [];
  for (const one of attempts) one.arm();
}

/** A class: most of what it offers is made only when a step reads it. */
class Context implements StepContext {
  readonly #attempt: Attempt;
  data: unknown;

  constructor(attempt: Attempt) {
    this.#attempt = attempt;
    this.data = fromJsonText(attempt.options.entry.data);
  }

  get suspend(): StepContext["suspend"] {
    return (reason, data) => this.#attempt.suspend(reason, data);
  }
  get input(): unknown {
    return fromJsonText(this.#attempt.options.input);
  }
  get resumeData(): unknown {
    return fromJsonText(this.#attempt.options.resumed?.data);
  }
  get resumedBy(): StepContext["resumedBy"] {
    return structuredClone(this.#attempt.options.resumed?.by); // a step that changes it does so for itself
  }
  get getStepData(): StepContext["getStepData"] {
    return (id) => fromJsonText(this.#attempt.options.stepData(id));
  }
  get context(): StepContext["context"] {
    return toContextMap(this.#attempt.host.execution);
  }
  get executionId(): string {
    return this.#attempt.host.execution.id;
  }
  get stepId(): string {
    return this.#attempt.options.path;
  }
  get attempt(): number {
    return this.#attempt.options.attempt;
  }
  get idempotencyKey(): string {
    return this.#attempt.options.idempotencyKey;
  }
  get signal(): AbortSignal {
    return this.#attempt.signal;
  }
  get logger(): Logger {
    return toStepLogger(this.#attempt);
  }
  get emit(): StepContext["emit"] {
    return (event) => emitOwn(event, this.#attempt);
  }
}

const reserved = /^(workflow|step)-/;

function emitOwn(event: { type: string }, { host, options: { path } }: Attempt): void {
  const { execution, live, stepValueBytes } = host;
  if (typeof event?.type !== "string") throw new TypeError("emit: an event needs a type");
  if (reserved.test(event.type)) throw new TypeError(`emit: the type ${event.type} is the server's own`);
  const own = fromJsonText(toJsonText(event, "event", stepValueBytes)) as { type: string };
  live({ ...own, executionId: execution.id, from: path, timestamp: new Date().toISOString() });
}

function toStepLogger({ host: { logger, execution }, options: { path } }: Attempt): Logger {
  const { id: executionId, workflowId, userId, conversationId } = execution;
  return withIds(logger, { workflowId, executionId, stepId: path, userId, conversationId });
}

function toFault(error: unknown, attempt: Attempt): Fault {
  attempt.host.spans.failed(attempt.options.path, error);
  toStepLogger(attempt).error("Step failed", { error, attempt: attempt.options.attempt });
  const message = toErrorMessage(error);
  return error instanceof ServeError ? { message, shown: true } : { message };
}
