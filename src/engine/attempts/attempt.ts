import { type ClockTimer, maxTimerMs } from "../../core/clock.ts";
import { isRetryable } from "../../core/error.ts";
import { fromJsonText, toJsonText, UnstorableError } from "../../core/json.ts";
import { withIds, type Logger } from "../../core/log.ts";
import { quote } from "../../core/cut.ts";
import { validate, type Schema } from "../../core/schema.ts";
import { runOutOfScope, type LogIds } from "../../core/scope.ts";
import { runInSpan } from "../../core/trace.ts";
import type { Agent, Prompt } from "../definition/reference.ts";
import type { AskOptions, SuspendOptions } from "../definition/step-context.ts";
import type { TableCode } from "../definition/code-table.ts";
import type { CodeTools, StepLimits } from "../definition/definition.ts";
import type { Execution } from "../execution.ts";
import { scopeRecords, type AttemptRecords } from "../contract/records.ts";
import type { StepCaller, StepRuntime } from "../runtime.ts";
import { toUntil } from "../definition/until.ts";
import { toText, type Value } from "../walk/value.ts";
import type { AttemptPlan, AttemptResult, LoopStart } from "../walk/decision.ts";
import { Context, type ContextSource } from "./context.ts";
import { toStoredError, type LoggedFailures } from "./failures.ts";
import type { Interpreter, Outputs } from "../walk/interpreter.ts";
import type { WalkSpans } from "./spans.ts";
import type { ProgramOptions, WalkHost } from "./walk.ts";

/** The part of a walk that its attempts share. */
export interface AttemptHost extends WalkHost, ProgramOptions {
  readonly execution: Execution;
  readonly spans: WalkSpans;
  readonly failures: LoggedFailures;
  readonly walk: Pick<Interpreter, "outputs" | "output">;
  readonly waitOutside: <T>(attempt: Attempt, work: () => Promise<T>) => Promise<T>;
}

/** One run of user code. It reports its first result and drops later ones. */
export class Attempt implements CodeTools, ContextSource {
  readonly host: AttemptHost;
  readonly plan: AttemptPlan;
  readonly code: TableCode;
  readonly limits: StepLimits;
  readonly #outputs: Outputs;
  #ended: ((result: AttemptResult) => void) | undefined;
  #timer: ClockTimer | undefined;
  #controller: AbortController | undefined;
  /** Its result is not needed: another branch has won or failed, or the execution was cancelled or went back. */
  abortReason: string | undefined;
  #endController: AbortController | undefined;
  #isOver = false;
  #runtime: StepRuntime | undefined;
  #records: Promise<AttemptRecords> | undefined;
  #hasRecords = false;
  #loop: LoopStart | undefined;

  constructor(host: AttemptHost, plan: AttemptPlan, code: TableCode) {
    this.host = this.limits = host;
    this.#outputs = host.walk.outputs;
    this.plan = plan;
    this.code = code;
  }

  run(ended: (result: AttemptResult) => void): void {
    this.#ended = ended;
    const { abortReason } = this;
    if (abortReason !== undefined)
      return this.#end({ at: this.host.clock.now(), error: { message: abortReason }, isFinal: true });
    if (this.#timeoutMs > 0) armSoon(this);
    const { path, attempt } = this.plan;
    // A scope of its own: the group commit that starts this attempt runs in the scope of some other request.
    void runInSpan(this.host.spans.open(path, attempt), () => this.#run(), this.#ids);
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
    const text = toJsonText(value, "result", this.host.stepValueBytes);
    const at = this.host.clock.now();
    return this.#loop ? { at, loop: this.#loop, value: text } : { at, value: text };
  }

  beginLoop(start: LoopStart): void {
    this.#loop = start;
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
        return attempt.logger;
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

  get logger(): Logger {
    return withIds(this.host.logger, this.#ids);
  }
  get #ids(): LogIds {
    const { id: executionId, workflowId, userId, conversationId } = this.host.execution;
    return { workflowId, executionId, stepId: this.plan.path, userId, conversationId };
  }

  output(stepId: string): Value {
    return this.host.walk.output(this.plan.path, stepId, this.#outputs);
  }

  get argument(): unknown {
    return this.read(this.plan.argument);
  }

  /** Parses a value of the plan; every call gives a new copy. */
  read(value: Value): unknown {
    return fromJsonText(toText(value, this.host.readRow));
  }

  #end(result: AttemptResult): void {
    this.#report(result);
    this.#finish();
  }

  #report(result: AttemptResult): void {
    const ended = this.#ended;
    this.#ended = undefined;
    if (this.#timer) this.host.clock.clearTimeout(this.#timer);
    ended?.(this.#hasRecords ? { ...result, hasRecords: true } : result);
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

  /** Sets the time limit. Unreferenced: a step that ignores its signal must not keep a closed server's process alive. */
  arm(): void {
    if (!this.#ended) return;
    const ms = Math.min(this.#timeoutMs, maxTimerMs);
    this.#timer = this.host.clock.setTimeout(() => this.#timeOut(), ms).unref();
  }

  #timeOut(): void {
    const reason = `Step ${this.plan.path} timed out after ${this.#timeoutMs} ms`;
    this.#report(this.#toFailure(new Error(reason)));
    this.abort(reason); // before the end: agents that the step asks get this reason
    this.#finish();
  }

  /** Takes the reason as text: an Error with its stack is expensive, and most steps never read their signal. */
  abort(reason: string): void {
    this.abortReason ??= reason;
    this.#signalAbort();
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
    if (this.abortReason === undefined || !this.#controller || this.#controller.signal.aborted) return;
    this.#controller.abort(new Error(this.abortReason));
  }

  /** Ends the attempt without an error, which a try/catch in user code could swallow. */
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

const outputNames: Readonly<Record<string, string>> = { "": "output", "?": "condition", "<": "input", ">": "result" };

const unarmed: Attempt[] = [];

/** Sets the time limit in the next turn of the event loop. Most attempts are over by then and need no timer. */
function armSoon(attempt: Attempt): void {
  if (unarmed.push(attempt) === 1) runOutOfScope(() => setImmediate(armAll));
}
function armAll(): void {
  for (const attempt of unarmed.splice(0)) attempt.arm();
}
