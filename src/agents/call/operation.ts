import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { toContextMap, type CallContext } from "../../core/caller.ts";
import type { Clock } from "../../core/clock.ts";
import { clientLeft, ServeError } from "../../core/error.ts";
import { newId, newSecretId } from "../../core/id.ts";
import { withData, withIds, type Logger } from "../../core/log.ts";
import { currentScope } from "../../core/scope.ts";
import type { SpanIds } from "../../core/trace.ts";
import type { CallOutcome } from "../../engine/stored/pending-calls.ts";
import type { Runtime, StepCaller } from "../../engine/runtime.ts";
import type { AgentContext } from "../context.ts";
import type { AgentDefinition, AgentEvent, AgentHooks, ModelSettings } from "../define.ts";
import type { Sdk } from "../sdk.ts";
import type { ToolOutside } from "../tools/outside.ts";
import type { NoResult } from "../tools/no-result.ts";
import type { CountedCall } from "../usage/to-usage-row.ts";
import { CallTrace, type AnswerPlace, type CallTraceParts } from "./call-trace.ts";
import { ModelError, toServeError } from "./failure.ts";
import type { HistoryBytes } from "./history/history-bytes.ts";
import type { ModelCall } from "./model-call.ts";
import type { OpenApproval } from "./approvals/pending-calls.ts";
import { ToolApprovals, type ContinuedCalls } from "./approvals/tool-approvals.ts";
import { RecordedCalls, type DurableTurn, type RecordLimits } from "./recorded-calls.ts";

export interface AgentCallOptions extends ModelSettings {
  readonly maxSteps?: number | undefined;
  readonly onDisconnect?: "continue" | "abort" | undefined;
}

export interface OperationOptions extends CallTraceParts {
  readonly options: AgentCallOptions;
  readonly logger: Logger;
  /** Creates the runtime of tools and hooks. */
  readonly createRuntime: CreateCallRuntime;
  readonly outside: ToolOutside;
  /** The number of agents that wait for the answer. @default 0 */
  readonly depth?: number | undefined;
  /** Aborted when the caller disconnects. @default never: the caller aborts the operation itself */
  readonly signal?: AbortSignal | undefined;
  /** The step of a workflow that the call comes from. */
  readonly step: StepCaller | undefined;
  /** The turn that a crash repeats. */
  readonly turn: DurableTurn | undefined;
  readonly limits: RecordLimits;
  readonly history: HistoryBytes;
  readonly mayWait: boolean;
}
/** Creates the runtime for tools and hooks. It acts for the user of the call, until the signal is aborted. */
type CreateCallRuntime = (
  call: CallContext & { readonly agentId: string },
  signal: AbortSignal,
  step: StepCaller | undefined,
) => Runtime;

/** The turn that a call runs. */
export interface BoundTurn {
  readonly calls: ContinuedCalls;
  /** Undefined if the answer is not stored. */
  readonly answer?: AnswerPlace | undefined;
}

/**
 * One call of an agent, from its first hook to its last.
 *
 * O1. What it is about is known when it begins. Its records (`record`) and its turn (`bind`) are set once each, before the
 *     model is asked.
 * O2. It fails with its first error (`abort`), even if a tool or a hook hides that from the SDK.
 */
export class Operation {
  readonly agent: AgentDefinition;
  readonly options: AgentCallOptions;
  /** The user and the conversation of the call. */
  readonly callContext: CallContext;
  /** True if the call comes from a workflow step. */
  readonly isStep: boolean;
  readonly step: StepCaller | undefined;
  /** The means of tools that start workflows and ask agents. */
  readonly outside: ToolOutside;
  readonly depth: number;
  readonly limits: RecordLimits;
  readonly clock: Clock;
  readonly trace: CallTrace;
  /** The stored messages that the call has loaded. */
  readonly history: HistoryBytes;
  /** True if the call can wait for approvals of its tools: it is a turn of a stored conversation. */
  readonly mayWait: boolean;
  readonly approvals: ToolApprovals = new ToolApprovals();
  readonly #suspended = new Map<string, NoResult>();
  #records: RecordedCalls | undefined;
  #turn: BoundTurn = { calls: { open: [], decided: new Map() } };
  readonly #parts: OperationOptions;
  /** The number of model calls when each id of a tool call was first used. */
  #toolCalls: Map<string, number> | undefined;
  readonly #scope = currentScope();
  readonly #controller = new AbortController();
  readonly #sdkController = new AbortController();
  #context: AgentContext | undefined;
  #runtime: Runtime | undefined;
  #failure: unknown;
  #abandon: ((error: unknown) => void) | undefined;

  constructor(parts: OperationOptions) {
    const { agent, options, callContext, step, signal, turn } = parts;
    this.agent = agent;
    this.options = options;
    this.callContext = callContext;
    this.isStep = step !== undefined;
    this.step = step;
    this.outside = parts.outside;
    this.depth = parts.depth ?? 0;
    this.limits = parts.limits;
    this.clock = parts.clock;
    this.history = parts.history;
    this.mayWait = parts.mayWait;
    this.trace = new CallTrace(parts);
    this.#parts = parts;
    if (turn) this.record(turn);
    if (signal?.aborted) this.#leave();
    else signal?.addEventListener("abort", this.#leave, { once: true });
  }

  /** Records the calls from now on. */
  record(turn: DurableTurn): void {
    this.#records = new RecordedCalls(turn, this.limits, (error) => this.abort(error));
  }
  /** The model and tool calls that are recorded. Undefined if the call does not continue after a crash. */
  get records(): RecordedCalls | undefined {
    return this.#records;
  }

  /** Binds the call to its turn, which is open. */
  bind(turn: BoundTurn): void {
    this.#turn = turn;
  }
  /** The waiting calls that this call continues. */
  get continued(): ContinuedCalls {
    return this.#turn.calls;
  }

  /** The tool call waits: for a suspended execution, or for an approval of the agent that was asked. */
  suspend(toolCallId: string, call: NoResult): void {
    this.#suspended.set(toolCallId, call);
  }
  /** The waiting tool calls, by id. */
  get suspended(): ReadonlyMap<string, NoResult> {
    return this.#suspended;
  }

  /** The context for hooks, tools and instructions. Created on first use, because most calls have none of them. */
  get context(): AgentContext {
    return (this.#context ??= this.#toContext());
  }

  /** The runtime for hooks and tools. */
  get runtime(): Runtime {
    const { agent, callContext, signal } = this;
    return (this.#runtime ??= this.#parts.createRuntime(
      { ...callContext, agentId: agent.id },
      signal,
      this.#parts.step,
    ));
  }

  #toContext(): AgentContext {
    const { agent, callContext, signal } = this;
    const { userId, conversationId } = callContext;
    const operationId = newId();
    // The consumer of a stream pulls it from another async context, so the scope is captured when the call starts.
    const ids = { ...this.#scope, ...this.#spanIds(), agentId: agent.id, userId, conversationId };
    return {
      operationId,
      userId,
      conversationId,
      context: toContextMap(callContext),
      signal,
      logger: withData(withIds(this.#parts.logger, ids), { operationId }),
    };
  }

  /** Some providers use the id of a tool call again, in the answer to a later model call: that call has another key. */
  toIdempotencyKey(toolCallId: string): string {
    if (this.records) return this.records.toIdempotencyKey(toolCallId);
    const current = this.trace.modelCalls;
    const first = this.#toolCalls?.get(toolCallId) ?? current;
    (this.#toolCalls ??= new Map()).set(toolCallId, first);
    return `${this.context.operationId}/${toolCallId}${first === current ? "" : `#${current}`}`;
  }

  /** The outcome of a call that was decided before this turn. Those that the model makes in it may have the same id. */
  outcomeOf(toolCallId: string): CallOutcome | undefined {
    return this.records?.hasModelCall ? undefined : this.continued.decided.get(toolCallId);
  }

  /** The call with this id that has waited and was decided before this turn. */
  openCall(toolCallId: string): OpenApproval | undefined {
    return this.records?.hasModelCall ? undefined : this.continued.open.find((call) => call.toolCallId === toolCallId);
  }

  /** True while no model must be asked: a call that was decided before this turn waits again. */
  get isPaused(): boolean {
    return this.suspended.size > 0 && this.records?.hasModelCall === false;
  }

  /** Returns an id for the AI SDK. An approval id is the same when the turn is repeated. */
  readonly generateId = (): string => {
    const toolCallId = this.approvals.takeRequest();
    return (toolCallId === undefined ? undefined : this.records?.toApprovalId(toolCallId)) ?? newSecretId();
  };

  #spanIds(): Partial<SpanIds> {
    const { span } = this.trace;
    return span ? { traceId: span.traceId, spanId: span.spanId } : {};
  }

  /** True if models and clients get the text of every tool error. */
  get showErrors(): boolean {
    return this.#parts.showDetail ?? false;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The signal for the SDK: aborted with the call, and when the answer is not read to its end. */
  get sdkSignal(): AbortSignal {
    return this.#sdkController.signal;
  }

  readonly #leave = (): void => this.abort(this.isStep ? this.#parts.signal?.reason : clientLeft());

  /** Fails the call with this error, even if the model ignores the abort. */
  abort(error: unknown): void {
    this.#failure ??= error;
    this.#controller.abort(error);
    this.#sdkController.abort(error);
    this.#abandon?.(error);
  }

  /** Ends the request to the model. The call has failed, or its answer is not read any more. */
  cut(): void {
    this.#sdkController.abort();
  }

  /**
   * Settles like `value`, but rejects as soon as the call is aborted: a tool or a hook may ignore the signal. Only one
   * promise can be guarded at a time.
   */
  unlessAborted<T>(value: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#abandon = reject;
      if (this.signal.aborted) reject(this.signal.reason as Error);
      value.then(resolve, reject);
    });
  }

  /** Calls a hook. An error that it throws fails the call. */
  async hook<Name extends keyof AgentHooks>(name: Name, event: EventOf<Name>): Promise<void> {
    const { agent } = this;
    // The event is the one of this hook. TypeScript cannot infer that from the name.
    const hook = agent.hooks[name] as ((event: unknown) => unknown) | undefined;
    if (!hook) return;
    try {
      await hook({ ...event, agent, context: this.context, runtime: this.runtime });
    } catch (error) {
      this.abort(error);
      throw error;
    }
  }

  /** Handles a failure: logs an internal or a model error, calls `onError`, and returns an error that is safe for the caller. */
  async fail(sdk: Sdk | undefined, thrown: unknown): Promise<ServeError> {
    const error = this.#failure ?? thrown;
    this.trace.span?.end(error);
    const shown = toServeError(sdk, error, this.clock.now());
    if (shown !== error && (shown.status >= 500 || shown instanceof ModelError)) {
      // The error of a step is logged by the step, which may try again.
      this.context.logger[this.isStep ? "debug" : "error"](shown.message, { error: shown.cause });
    }
    const heard = this.hook("onError", { error }).catch((hookError: unknown) =>
      this.context.logger.error("onError failed", { error: hookError }),
    );
    // An aborted call does not wait for the hook.
    if (!this.signal.aborted) await this.unlessAborted(heard).catch(() => {});
    return shown;
  }

  startModelCall(model: CountedCall["model"], params: LanguageModelV4CallOptions): ModelCall {
    const answer = this.signal.aborted ? undefined : this.#turn.answer;
    return this.trace.startModelCall({ model, params, answer, isRecorded: this.#records !== undefined });
  }

  /** Ends all spans and stops listening to the caller's signal. */
  close(): void {
    this.history.close();
    this.trace.close();
    this.#parts.signal?.removeEventListener("abort", this.#leave);
  }
}

type EventOf<Name extends keyof AgentHooks> = Omit<Parameters<NonNullable<AgentHooks[Name]>>[0], keyof AgentEvent>;
