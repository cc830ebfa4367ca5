import type { ModelLimits } from "./models/model-stream.ts";
import { HistoryBytes, type HistoryRule } from "./call/history/history-bytes.ts";
import type { ByteBudget, Reservation } from "../core/byte-budget.ts";
import { systemClock, type Clock } from "../core/clock.ts";
import { AgentError, busy, DetailedError, shuttingDown, type ServeError } from "../core/error.ts";
import type { Conversations } from "../engine/contract/conversations.ts";
import type { Engine } from "../engine/contract/engine.ts";
import { DeletedConversationError } from "../engine/stored/stored-conversation.ts";
import { generate, stream } from "./call/call.ts";
import { ModelError } from "./call/failure.ts";
import type { AgentCall, BegunCall, CallParts } from "./call/question.ts";
import { Operation, type OperationOptions } from "./call/operation.ts";
import type { RecordLimits } from "./call/recorded-calls.ts";
import { createToolAsk } from "./call/ask.ts";
import { KeptCalls } from "./model-calls/kept-calls.ts";
import type { Answer, StreamPart } from "./call/answers/answer.ts";
import { PreparedAgents } from "./prepared-agents.ts";
import { fromClientSchema, type ObjectShape, type SchemaLimits } from "./schemas/object-shape.ts";
import { SchemaChecker, type CheckerOptions } from "./schemas/schema-checker.ts";
import { loadSdk } from "./sdk.ts";
import type { ToolOutside, ToolTargets } from "./tools/outside.ts";

interface AgentLimits extends ModelLimits, SchemaLimits, CheckerOptions, RecordLimits {
  readonly agentCalls: number;
  readonly conversationBytes: number;
  readonly detachedTurns: number;
}
export interface AgentsOptions extends Pick<
  OperationOptions,
  "logger" | "tracer" | "metrics" | "usage" | "createRuntime" | "showDetail"
> {
  readonly engine: Pick<Engine, "begin" | "clock" | "changes">;
  readonly conversations: Conversations;
  /** The byte budget of the server. Loaded conversations are a part of it. */
  readonly budget: ByteBudget;
  readonly limits: AgentLimits;
  /** The clock of model time limits. @default the clock of the machine */
  readonly clock?: Clock | undefined;
  /** The folder in which provider packages are resolved, for models named by a string. */
  readonly root: string;
  readonly targets: ToolTargets;
  /** True to keep the model calls of the last turns, for the console. */
  readonly keepModelCalls: boolean;
}

/** The agent calls in flight. */
export class AgentCalls {
  readonly prepared: PreparedAgents;
  readonly clock: Clock;
  /** The model calls of the last turns. Undefined if they are not kept. */
  readonly modelCalls: KeptCalls | undefined;
  readonly #options: AgentsOptions;
  readonly #outside: ToolOutside;
  readonly #checker: SchemaChecker;
  readonly #requests = new Set<Operation>();
  /** The calls for steps. The engine aborts them, and runs an interrupted step again. */
  readonly #steps = new Set<Operation>();
  #closing: PromiseWithResolvers<void> | undefined;

  constructor(options: AgentsOptions) {
    const { clock = systemClock, targets, limits, keepModelCalls } = options;
    this.#options = options;
    this.clock = clock;
    this.prepared = new PreparedAgents({ ...options, clock });
    this.modelCalls = keepModelCalls ? new KeptCalls(clock) : undefined;
    this.#checker = new SchemaChecker(limits);
    this.#outside = { ...targets, ask: createToolAsk(targets, (call) => this.stream(call)) };
  }

  /** Begins a call. Throws a 503 if there are too many. A repeated turn was admitted before a crash. */
  beginCall(call: BegunCall, isRepeated = false): Operation {
    const { agent, options = {}, callContext, signal, step, turn, isNested, depth, mayWait = false } = call;
    const isNew = step === undefined && !isRepeated;
    // A call that waits for this one ends within the same time.
    if (this.#closing && isNew && !depth) throw shuttingDown();
    if (isNew && this.#requests.size >= this.#options.limits.agentCalls)
      throw busy("Too many agent calls in flight", 1);
    // Admitted work is never refused. A nested call must not wait for the end of the outer one.
    const rule = isNested ? "add" : isNew ? "refuse" : "wait";
    const operation = new Operation({
      ...this.#options,
      history: this.openHistory(call.reservation, rule),
      clock: this.clock,
      modelCalls: this.modelCalls,
      outside: this.#outside,
      agent,
      options,
      callContext,
      depth,
      signal,
      step,
      turn,
      mayWait,
    });
    this.#callsLike(operation).add(operation);
    return operation;
  }

  endCall(operation: Operation): void {
    operation.close();
    this.#callsLike(operation).delete(operation);
    this.#checkIdle();
  }

  #callsLike({ isStep }: Operation): Set<Operation> {
    return isStep ? this.#steps : this.#requests;
  }

  openHistory(reservation: Reservation | undefined, rule: HistoryRule): HistoryBytes {
    return new HistoryBytes(reservation ?? this.#options.budget.createReservation(), rule);
  }

  async toParts(operation: Operation): Promise<CallParts> {
    const { conversations, limits } = this.#options;
    const { conversationBytes } = limits;
    return { agent: await this.prepared.prepare(operation.agent), operation, conversations, conversationBytes };
  }

  toShape(schema: Record<string, unknown>): Promise<ObjectShape> {
    return fromClientSchema(schema, this.#checker, this.#options.limits);
  }

  /** Returns the whole answer of a call that is not a turn. Every failure is thrown as a `ServeError`. */
  async generate(call: AgentCall): Promise<Answer> {
    const operation = this.beginCall(call);
    try {
      const answer = this.toParts(operation).then((parts) => generate(parts, call.question));
      return await operation.unlessAborted(answer);
    } catch (error) {
      throw await this.toFailure(operation, error);
    } finally {
      this.endCall(operation);
    }
  }

  /** Streams the answer of a call that is not a turn. A failure after the first output is the last part. */
  async *stream(call: AgentCall): AsyncGenerator<StreamPart> {
    const operation = this.beginCall(call);
    let hasOutput = false;
    try {
      const parts = stream(await operation.unlessAborted(this.toParts(operation)), call.question);
      for await (const part of this.follow(operation, parts)) {
        hasOutput = true;
        yield part;
      }
    } catch (error) {
      const failure = await this.toFailure(operation, error);
      if (!hasOutput) throw failure;
      yield { type: "error", error: failure };
    } finally {
      this.endCall(operation);
    }
  }

  /** Yields parts from the model's first output on, so that an earlier failure becomes an error response. */
  async *follow(operation: Operation, parts: AsyncGenerator<StreamPart>): AsyncGenerator<StreamPart> {
    const held: StreamPart[] = [];
    let hasOutput = false;
    try {
      for (;;) {
        const { done, value: part } = await operation.unlessAborted(parts.next());
        if (done) return;
        held.push(part);
        hasOutput ||= part.type !== "start" && part.type !== "start-step";
        if (hasOutput) yield* held.splice(0);
      }
    } finally {
      // Not awaited: the generator may be waiting for a promise that never settles.
      void parts.return(undefined).catch(() => {});
    }
  }

  /** Reports a failure, and returns the error for the caller. */
  async toFailure(operation: Operation, error: unknown): Promise<ServeError> {
    const failure = await operation.fail(await loadSdk().catch(() => undefined), error);
    if (operation.isStep && failure instanceof DeletedConversationError)
      return new AgentError(failure.status, failure.message, { retry: false });
    if (!(failure instanceof ModelError)) return failure;
    const { status, message, cause, retry, detail } = failure;
    // The caller of a workflow does not call the model, so that its 400 or 429 is not their answer.
    if (operation.isStep) return new AgentError(status, message, { cause, retry });
    return this.#options.showDetail ? new DetailedError(failure, { detail }, []) : failure;
  }

  /** The number of calls in flight, steps included. */
  running(agentId: string): number {
    return [...this.#requests, ...this.#steps].filter(({ agent }) => agent.id === agentId).length;
  }

  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Drains the calls. Those that run after `drainMs` fail with 503. `onLate` is called before. */
  async close(drainMs: number, onLate: () => void): Promise<void> {
    const idle = Promise.withResolvers<void>();
    this.#closing = idle;
    this.#checkIdle();
    const late = setTimeout(() => {
      onLate();
      for (const operation of this.#requests) operation.abort(shuttingDown());
      // The stream of a reader that stopped pulling never reaches its `finally` block.
      setTimeout(idle.resolve, lastWordMs);
    }, drainMs);
    await idle.promise;
    clearTimeout(late);
    await this.#checker.close();
  }

  #checkIdle(): void {
    if (this.#requests.size === 0) this.#closing?.resolve();
  }
}

/** The time in milliseconds that aborted calls have to send their error. */
const lastWordMs = 100;
