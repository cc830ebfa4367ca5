import { toContextMap } from "../../core/caller.ts";
import type { ClockTimer } from "../../core/clock.ts";
import { cut } from "../../core/cut.ts";
import { longestTimerMs } from "../../core/duration.ts";
import { isRetryable, isShown, toErrorMessage } from "../../core/error.ts";
import { fromJsonText, toJsonText, toObject, UnstorableError } from "../../core/json.ts";
import { withIds, type Logger } from "../../core/log.ts";
import { quote } from "../../core/quote.ts";
import { validate, type Schema } from "../../core/schema.ts";
import { runOutOfScope } from "../../core/scope.ts";
import { runInSpan } from "../../core/trace.ts";
import type { AskAgent, AskOptions } from "../ask.ts";
import type { Agent, Prompt } from "../reference.ts";
import type { TableCode } from "../code-table.ts";
import type { CodeTools, StepLimits } from "../definition.ts";
import type { Execution, StoredError } from "../execution.ts";
import { scopeRecords, type AttemptRecords } from "../contract/records.ts";
import { toRetryDelay } from "../walk/retry-delay.ts";
import type { CreateStepRuntime, StepCaller, StepRuntime } from "../runtime.ts";
import type { StepContext, SuspendOptions } from "../step-context.ts";
import { toUntil } from "../until.ts";
import { toText, type Value } from "../walk/value.ts";
import type { AttemptPlan, AttemptResult, LoopStart } from "../walk/decision.ts";
import type { LoggedFailures } from "./logged-failures.ts";
import type { Outputs } from "../walk/interpreter.ts";
import type { WalkSpans } from "./spans.ts";
import type { WalkHost } from "./walk.ts";

/** The part of a walk that its attempts share. */
export interface AttemptHost extends WalkHost {
  readonly execution: Execution;
  readonly logger: Logger;
  readonly spans: WalkSpans;
  readonly failures: LoggedFailures;
  readonly ask: AskAgent;
  readonly createRuntime: CreateStepRuntime;
  readonly waitOutside: <T>(attempt: Attempt, work: () => Promise<T>) => Promise<T>;
  readonly stepTimeoutMs: number;
  readonly stepValueBytes: number;
  readonly onFailure: OnFailure | undefined;
  readonly limits: StepLimits;
  /** The recorded output of a step, as the step at `path` names it. */
  readonly output: (attempt: Attempt, stepId: string) => Value;
}

/** Takes the error of a failed attempt, by the execution and the journal key of the attempt. */
export type OnFailure = (executionId: string, key: string, error: unknown) => void;

/** One run of user code. It reports its first result and drops later ones. */
export class Attempt implements CodeTools {
  readonly host: AttemptHost;
  readonly plan: AttemptPlan;
  readonly code: TableCode;
  /** The outputs of the steps before it. */
  readonly outputs: Outputs;
  #ended: ((result: AttemptResult) => void) | undefined;
  #timer: ClockTimer | undefined;
  #controller: AbortController | undefined;
  #abortReason: string | undefined;
  #endController: AbortController | undefined;
  #isOver = false;
  #runtime: StepRuntime | undefined;
  #records: Promise<AttemptRecords> | undefined;
  #hasRecords = false;

  constructor(host: AttemptHost, plan: AttemptPlan, code: TableCode, outputs: Outputs) {
    this.host = host;
    this.outputs = outputs;
    this.plan = plan;
    this.code = code;
  }

  run(ended: (result: AttemptResult) => void): void {
    this.#ended = ended;
    if (this.isAborted)
      return this.#end({ at: this.host.clock.now(), error: { message: this.#abortReason! }, isFinal: true });
    if (this.#timeoutMs > 0) armSoon(this);
    const { execution, spans } = this.host;
    const { path: stepId, attempt } = this.plan;
    const { id: executionId, workflowId, userId, conversationId } = execution;
    // A scope of its own: the group commit that starts this attempt runs in the scope of some other request.
    const scope = { workflowId, executionId, stepId, userId, conversationId };
    void runInSpan(spans.open(stepId, attempt), () => this.#run(), scope);
  }

  async #run(): Promise<void> {
    let result: AttemptResult;
    try {
      result = await this.#execute();
    } catch (error) {
      if (!this.#ended) return; // timed out, suspended or abandoned: the failure is a consequence, and no news
      result = this.#toFailure(error);
    }
    this.#end(result);
  }

  async #execute(): Promise<AttemptResult> {
    const { execute, inputSchema, outputSchema } = this.code;
    const context = new Context(this);
    if (inputSchema) context.data = await this.#conform(inputSchema, context.data, "input");
    let value = await execute(context, this);
    if (outputSchema) value = await this.#conform(outputSchema, value, outputNames[this.plan.suffix[0] ?? ""]!);
    const loop = value instanceof LoopItems ? value : undefined;
    const text = toJsonText(loop ? loop.items : value, "result", this.host.stepValueBytes);
    const at = this.host.clock.now();
    return loop ? { at, loop: loop.start, value: text } : { at, value: text };
  }

  get limits(): StepLimits {
    return this.host.limits;
  }

  beginLoop(start: LoopStart, items: readonly unknown[] | undefined): LoopItems {
    return new LoopItems(start, items);
  }

  ask(agent: Agent, prompt: Prompt, options: AskOptions): Promise<unknown> {
    return this.host.ask(agent, prompt, { ...options, caller: Attempt.#toCaller(this) });
  }

  /** Created on first use: most steps never read it. */
  get runtime(): StepRuntime {
    return (this.#runtime ??= this.host.createRuntime(Attempt.#toCaller(this)));
  }

  /** The signals and the logger are created on first use: a turn, which may be open for minutes, needs none of them. */
  static #toCaller(attempt: Attempt): StepCaller {
    const { execution, waitOutside } = attempt.host;
    const { idempotencyKey, key } = attempt.plan;
    return {
      execution,
      idempotencyKey,
      get signal() {
        return attempt.signal;
      },
      waitOutside: (work) => waitOutside(attempt, work),
      attemptId: `${execution.id}/${key}`,
      get endSignal() {
        return attempt.#endSignal;
      },
      get logger() {
        return toStepLogger(attempt);
      },
      openRecords: async (scope) => scopeRecords(await (attempt.#records ??= attempt.#openRecords()), scope),
    };
  }

  async #openRecords(): Promise<AttemptRecords> {
    this.#hasRecords = true;
    const { found, write } = await this.host.openRecords(this.plan.key);
    return {
      found,
      // The records are removed with the result of the attempt: later ones would stay.
      write: async (name, text, usage) => {
        if (!this.#ended) throw new Error("The attempt has ended");
        await write(name, text, usage);
      },
    };
  }

  get argument(): unknown {
    return this.read(this.plan.argument);
  }

  /** Parses a value of the plan; every call gives a new copy. */
  read(value: Value): unknown {
    return fromJsonText(toText(value, this.host.readRow));
  }

  #end(result: AttemptResult): void {
    const ended = this.#ended;
    this.#ended = undefined;
    if (this.#timer) this.host.clock.clearTimeout(this.#timer);
    ended?.(this.#hasRecords ? { ...result, hasRecords: true } : result);
    this.#finish();
  }

  #toFailure(error: unknown): AttemptResult {
    // An attempt that returned a value has done its work: another one would do it again.
    const mayRetry = isRetryable(error) && !(error instanceof UnstorableError);
    const isFinal = this.plan.attempt >= this.code.retry.attempts || !mayRetry;
    return { at: this.host.clock.now(), error: toStoredError(error, this, isFinal), isFinal };
  }

  get #timeoutMs(): number {
    return this.code.timeout ?? this.host.stepTimeoutMs;
  }

  /** Unreferenced: a step that ignores its signal must not keep a closed server's process alive. */
  arm(): void {
    if (!this.#ended) return;
    const ms = Math.min(this.#timeoutMs, longestTimerMs);
    this.#timer = this.host.clock.setTimeout(() => this.#timeOut(), ms).unref();
  }

  #timeOut(): void {
    const reason = `Step ${this.plan.path} timed out after ${this.#timeoutMs} ms`;
    const failure = this.#toFailure(new Error(reason));
    this.abort(reason);
    this.#end(failure);
  }

  /** Takes the reason as text: an Error with its stack is expensive, and most steps never read their signal. */
  abort(reason: string): void {
    this.#abortReason ??= reason;
    this.#signalAbort();
  }

  /** Its result is not needed: another branch has won or failed, or the execution was cancelled or went back. */
  get isAborted(): boolean {
    return this.#abortReason !== undefined;
  }

  /** Aborts an attempt whose walk is released. Its result is not reported, and a failure from now on is not logged. */
  abandon(reason: string): void {
    this.#ended = undefined;
    this.host.clock.clearTimeout(this.#timer);
    this.abort(reason);
    this.#finish();
  }

  #finish(): void {
    this.#isOver = true;
    this.#endController?.abort(new Error(`Step ${this.plan.path} has ended`));
  }

  get #endSignal(): AbortSignal {
    this.#endController ??= new AbortController();
    if (this.#isOver) this.#finish();
    return this.#endController.signal;
  }

  /** Created on first use: most steps never read it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    this.#signalAbort();
    return this.#controller.signal;
  }

  #signalAbort(): void {
    if (this.#abortReason === undefined || !this.#controller || this.#controller.signal.aborted) return;
    this.#controller.abort(new Error(this.#abortReason));
  }

  /** Ends the attempt by itself: a try/catch around it in user code cannot swallow it. */
  suspend(
    reason = `Suspended by step ${this.plan.path}`,
    data?: unknown,
    options: SuspendOptions = {},
  ): Promise<never> {
    if (!this.code.suspends) throw new Error(`Step ${this.plan.path} cannot suspend here`);
    void this.#suspend(reason, data, options);
    return new Promise<never>(() => {});
  }

  async #suspend(reason: unknown, data: unknown, options: SuspendOptions): Promise<void> {
    const { suspendSchema } = this.code;
    try {
      if (typeof options !== "object" || options === null)
        throw new TypeError(
          `${this.plan.path}: suspend: expected options such as { timeout: "2d" }, found ${quote(options)}`,
        );
      const { timeout } = options;
      const until = timeout === undefined ? undefined : toUntil(timeout, `${this.plan.path}: timeout`);
      const checked = await (suspendSchema ? this.#conform(suspendSchema, data, "suspend data") : data);
      const text = toJsonText(checked, "suspend data", this.host.stepValueBytes);
      const at = this.host.clock.now();
      const due = until && ("ms" in until ? { at: at + until.ms, isElapsed: true as const } : { at: until.date });
      this.#end({ at, suspended: { reason: String(reason), data: text, due } });
      this.abort("The step is suspended"); // for code that still runs beside the suspension
    } catch (error) {
      this.#end(this.#toFailure(error));
    }
  }

  async #conform(schema: Schema, value: unknown, what: string): Promise<unknown> {
    const result = await validate(schema, value);
    if (!("problem" in result)) return result.value;
    // A schema library shows the value that it has found.
    const { isRedacted, isInputRedacted } = this.code;
    const problem = (what === "input" ? isInputRedacted : isRedacted) ? "(redacted)" : result.problem;
    throw new Error(`${this.plan.path || "Workflow"}: invalid ${what}: ${problem}`);
  }
}

/** The result of an entry that begins a loop. */
class LoopItems {
  readonly start: LoopStart;
  readonly items: readonly unknown[] | undefined;

  constructor(start: LoopStart, items: readonly unknown[] | undefined) {
    this.start = start;
    this.items = items;
  }
}

const outputNames: Readonly<Record<string, string>> = { "": "output", "?": "condition", "<": "input", ">": "result" };

let fresh: Attempt[] = [];

/** Sets the time limit in the next turn of the event loop. Most attempts are over by then and need no timer. */
function armSoon(attempt: Attempt): void {
  if (fresh.push(attempt) > 1) return;
  runOutOfScope(() => setImmediate(armFresh));
}
function armFresh(): void {
  const attempts = fresh;
  fresh = [];
  for (const one of attempts) one.arm();
}

/** The context of a step. A class with getters, so that each part is made only when the step reads it. */
class Context implements StepContext {
  readonly #attempt: Attempt;
  data: unknown;

  constructor(attempt: Attempt) {
    this.#attempt = attempt;
    this.data = attempt.read(attempt.plan.data);
  }

  get suspend(): StepContext["suspend"] {
    return (reason, data, options) => this.#attempt.suspend(reason, data, options);
  }
  get timedOut(): boolean {
    return this.#attempt.plan.resumed?.isWake === true;
  }
  get input(): unknown {
    return this.#attempt.read(this.#attempt.plan.input);
  }
  get resumeData(): unknown {
    return this.#attempt.read(this.#attempt.plan.resumed?.data);
  }
  get resumedBy(): StepContext["resumedBy"] {
    return structuredClone(this.#attempt.plan.resumed?.by); // a copy, so that a step cannot change it for others
  }
  get getStepData(): StepContext["getStepData"] {
    const { host } = this.#attempt;
    return (id) => this.#attempt.read(host.output(this.#attempt, id));
  }
  get context(): StepContext["context"] {
    return toContextMap(this.#attempt.host.execution);
  }
  get executionId(): string {
    return this.#attempt.host.execution.id;
  }
  get stepId(): string {
    return this.#attempt.plan.path;
  }
  get attempt(): number {
    return this.#attempt.plan.attempt;
  }
  get idempotencyKey(): string {
    return this.#attempt.plan.idempotencyKey;
  }
  get signal(): AbortSignal {
    return this.#attempt.signal;
  }
  get logger(): Logger {
    return toStepLogger(this.#attempt);
  }
  get runtime(): StepRuntime {
    return this.#attempt.runtime;
  }
  get emit(): StepContext["emit"] {
    return (event) => emitOwn(event, this.#attempt);
  }
}

const reserved = /^(workflow|step)-/;

/** Publishes a copy of an author's event. The fields of the server replace the author's, and only stored events have a `seq`. */
function emitOwn(event: { type: string }, { host, plan: { path } }: Attempt): void {
  const { execution, publishLive, stepValueBytes, clock } = host;
  const { seq: _, ...own } = toObject(fromJsonText(toJsonText(event, "event", stepValueBytes)));
  const { type } = own;
  if (typeof type !== "string") throw new TypeError("emit: an event needs a type");
  if (reserved.test(type)) throw new TypeError(`emit: the event type ${cut(type)} is reserved`);
  const timestamp = new Date(clock.now()).toISOString();
  publishLive({ ...own, type, executionId: execution.id, from: path, timestamp });
}

function toStepLogger({ host: { logger, execution }, plan: { path } }: Attempt): Logger {
  const { id: executionId, workflowId, userId, conversationId } = execution;
  return withIds(logger, { workflowId, executionId, stepId: path, userId, conversationId });
}

function toStoredError(error: unknown, attempt: Attempt, isFinal: boolean): StoredError {
  const { path, key } = attempt.plan;
  const { spans, onFailure, execution } = attempt.host;
  const message = toErrorMessage(error);
  spans.failed(path, error);
  if (!attempt.isAborted) onFailure?.(execution.id, key, error);
  logFailure(error, attempt, message, isFinal);
  if (!isShown(error)) return { message };
  return error.status < 500 ? { message, shown: true, status: error.status } : { message, shown: true };
}

/** Logs the failure of an attempt, once: as a warning if it is retried, at `debug` if its result is not needed. */
function logFailure(error: unknown, attempt: Attempt, message: string, isFinal: boolean): void {
  const { host, code, plan } = attempt;
  const logger = toStepLogger(attempt);
  const { attempt: number, path } = plan;
  const { retry, isTolerated } = code;
  const { attempts } = retry;
  if (attempt.isAborted) return logger.debug("Step aborted", { error, attempt: number });
  if (!isFinal) {
    const delayMs = toRetryDelay(retry, number + 1, plan.idempotencyKey);
    return logger.warn("Step attempt failed", { error, attempt: number, attempts, delayMs });
  }
  logger.error("Step failed", { error, attempt: number, ...(isTolerated && { isTolerated }) });
  if (!isTolerated) host.failures.add(path, message);
}
