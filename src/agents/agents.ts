import type { ByteBudget, Reservation } from "../core/byte-budget.ts";
import { systemClock, type Clock } from "../core/clock.ts";
import {
  AgentError,
  badRequest,
  busy,
  clientLeft,
  DetailedError,
  shuttingDown,
  type ServeError,
} from "../core/error.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { Tracer } from "../core/trace.ts";
import type { AskAgent } from "../engine/definition/ask.ts";
import type { Engine } from "../engine/contract/engine.ts";
import type { ConversationKey, Conversations } from "../engine/contract/conversations.ts";
import type { UsageStore } from "../engine/contract/usage.ts";
import { DeletedConversationError } from "../engine/stored/stored-conversation.ts";
import { createAsk } from "./call/ask.ts";
import { createToolAsk } from "./call/tool-ask.ts";
import { ModelError } from "./call/failure.ts";
import { HistoryBytes } from "./call/history-bytes.ts";
import {
  generate,
  stream,
  type Answer,
  type AgentCall,
  type BegunCall,
  type CallParts,
  type StreamPart,
} from "./call/call.ts";
import { Operation, type CreateCallRuntime } from "./call/operation.ts";
import { prepareAgent, type PreparedAgent } from "./call/prepare.ts";
import { stopped, type RecordLimits } from "./call/recorded-calls.ts";
import { appendMessage, type PersonMessage } from "./conversations/append-message.ts";
import type { AgentDefinition } from "./define.ts";
import { describeTools, type ToolDetail } from "./describe.ts";
import { KeptCalls } from "./model-calls/kept-calls.ts";
import type { ModelLimits } from "./models/guarded-model.ts";
import { fromClientSchema, type SchemaLimits } from "./schemas/object-shape.ts";
import { SchemaChecker, type CheckerOptions } from "./schemas/schema-checker.ts";
import { loadSdk } from "./sdk.ts";
import type { ToolsByName } from "./tools/check-tools.ts";
import { loadTools } from "./tools/load-tools.ts";
import type { ToolOutside, ToolTargets } from "./tools/outside.ts";
import { ExecutionWatch } from "./turns/execution-watch.ts";
import type { LiveTurn } from "./turns/live-turn.ts";
import type { TurnCall } from "./turns/stored-turn.ts";
import { Turns } from "./turns/turns.ts";

interface AgentLimits extends ModelLimits, SchemaLimits, CheckerOptions, RecordLimits {
  readonly agentCalls: number;
  readonly conversationBytes: number;
  readonly detachedTurns: number;
}
export interface AgentsOptions {
  readonly engine: Pick<Engine, "begin" | "clock" | "changes">;
  readonly conversations: Conversations;
  readonly usage: Pick<UsageStore, "count">;
  /** The bytes in flight, of which loaded conversations are a part. */
  readonly budget: ByteBudget;
  readonly limits: AgentLimits;
  readonly logger: Logger;
  readonly tracer: Tracer;
  readonly metrics?: Metrics | undefined;
  /** The time limits of models. @default the clock of the machine */
  readonly clock?: Clock | undefined;
  /** The folder from which the provider package of a model named by a string is resolved. */
  readonly root: string;
  readonly createRuntime: CreateCallRuntime;
  /** The workflows and agents that tools reach. */
  readonly targets: ToolTargets;
  /** True to keep the model calls of the last turns, for the console. */
  readonly keepModelCalls: boolean;
  /** True if errors of models have the provider's own message as `detail`. */
  readonly showDetail: boolean;
}

/** The agents of one server and the calls in flight. */
export interface Agents {
  readonly conversations: Conversations;
  readonly limits: AgentLimits;
  readonly checker: SchemaChecker;
  /** Returns the whole answer. Every failure is thrown as a `ServeError`. */
  generate(call: AgentCall): Promise<Answer>;
  /** Begins a call. It fails before the model's first output with an error that is thrown, and later with its last part. */
  open(call: AgentCall): Promise<AsyncGenerator<StreamPart>>;
  /** Begins a turn that nobody reads. Resolves when it is durable. */
  begin(call: AgentCall): Promise<LiveTurn>;
  /** Stores a message of a person in a conversation. Resolves to its id when it is durable. */
  append(
    key: ConversationKey,
    message: PersonMessage,
    request: { readonly signal: AbortSignal; readonly reservation?: Reservation | undefined },
  ): Promise<string>;
  /** Continues the answers whose tools wait for executions. Called when the executions of the last process continue. */
  continueWaiting(): void;
  /** The turns of conversations that run in this process. */
  readonly turns: Turns;
  /** The model calls of the last turns. Undefined if they are not kept. */
  readonly modelCalls: KeptCalls | undefined;
  /** Runs the call of an `andAgent` step. */
  readonly ask: AskAgent;
  /** The tools that a function of the agent has returned. Null before its first call. */
  loadedTools(agent: AgentDefinition): ToolDetail[] | null;
  /** The number of calls of an agent in flight, steps included. */
  running(agentId: string): number;
  /** Stops accepting calls and drains those in flight. Calls that are still running after `drainMs` fail with 503. */
  close(options: { drainMs: number }): Promise<void>;
}

export function createAgents(given: AgentsOptions): Agents {
  const {
    conversations,
    usage,
    budget,
    limits,
    logger,
    tracer,
    metrics,
    root,
    createRuntime,
    showDetail,
    clock = systemClock,
  } = given;
  const modelCalls = given.keepModelCalls ? new KeptCalls(clock) : undefined;
  const prepared = new WeakMap<AgentDefinition, Promise<PreparedAgent>>();
  const loaded = new WeakMap<AgentDefinition, ToolDetail[]>();
  const checker = new SchemaChecker(limits);
  /** The calls that serve requests. Calls of steps are aborted by the engine, which runs an interrupted step again. */
  const requests = new Set<Operation>();
  const steps = new Set<Operation>();
  let closing: PromiseWithResolvers<void> | undefined;
  /** Aborted when the time of the shutdown is over. */
  const closed = new AbortController();

  const warn = (message: string): void => logger.warn(message);
  function prepare(agent: AgentDefinition): Promise<PreparedAgent> {
    const known = prepared.get(agent);
    if (known) return known;
    const preparing = prepareAgent(agent, { limits, root, loadTools: loadToolsOf });
    prepared.set(agent, preparing);
    clock.hold?.(preparing);
    preparing.catch(() => prepared.delete(agent)); // a missing package may be installed before the next call
    return preparing;
  }

  async function loadToolsOf(agent: AgentDefinition): Promise<ToolsByName> {
    const { findWorkflow, findAgent } = given.targets;
    const served = { hasWorkflow: (id: string) => !!findWorkflow(id), hasAgent: (id: string) => !!findAgent(id) };
    const tools = await loadTools(agent, served);
    if (typeof agent.tools === "function") loaded.set(agent, describeTools(agent.id, tools, { warn, findWorkflow }));
    return tools;
  }

  /** A turn that is repeated after a crash has been admitted before. */
  function begin(call: BegunCall, isRepeated = false): Operation {
    const {
      agent,
      options = {},
      callContext,
      signal,
      step,
      turn,
      reservation,
      isNested,
      depth,
      mayWait = false,
    } = call;
    const isStep = step !== undefined;
    const isNew = !isStep && !isRepeated;
    // A call that waits for this one ends within the same time.
    if (closing && isNew && !depth) throw shuttingDown();
    if (isNew && requests.size >= limits.agentCalls) {
      throw busy("Too many agent calls in flight", 1);
    }
    // Work that has begun is never refused. A call that another one waits for must not wait for the end of that one.
    const rule = isNested ? "add" : isNew ? "refuse" : "wait";
    const operation = new Operation({
      history: new HistoryBytes(reservation ?? budget.createReservation(), rule),
      agent,
      options,
      callContext,
      logger,
      tracer,
      metrics,
      modelCalls,
      showDetail,
      usage,
      clock,
      createRuntime,
      outside,
      depth,
      signal,
      step,
      turn,
      limits,
      mayWait,
    });
    (isStep ? steps : requests).add(operation);
    return operation;
  }

  function end(operation: Operation): void {
    operation.close();
    (operation.isStep ? steps : requests).delete(operation);
    checkIdle();
  }

  const toParts = async (operation: Operation): Promise<CallParts> => {
    const { conversationBytes } = limits;
    return { agent: await prepare(operation.agent), operation, conversations, conversationBytes };
  };

  const turns = new Turns({
    engine: given.engine,
    conversations,
    detached: { max: limits.detachedTurns, ofUser: detachedOfUser },
    begin,
    end,
    toParts,
    toShape: (schema) => fromClientSchema(schema, checker, limits),
    toFailure,
    follow,
    findAgent: given.targets.findAgent,
    onWait: (executionId) => watch.check(executionId),
  });
  const watch = new ExecutionWatch({
    engine: given.engine,
    conversations,
    logger,
    readEnd: given.targets.read,
    continueWith: (call, ended) => turns.continueWith(call, ended),
    onDropped: (executionId) => turns.expected.drop(executionId),
  });
  const outside: ToolOutside = { ...given.targets, ask: createToolAsk(given.targets, streamParts) };
  async function generateAnswer(call: AgentCall): Promise<Answer> {
    const turn = asTurn(call);
    if (turn) return readAnswer(await turns.open(turn));
    const operation = begin(call);
    try {
      const answer = toParts(operation).then((parts) => generate(parts, call.question));
      return await operation.unlessAborted(answer);
    } catch (error) {
      throw await toFailure(operation, error);
    } finally {
      end(operation);
    }
  }

  async function open(call: AgentCall): Promise<AsyncGenerator<StreamPart>> {
    const turn = asTurn(call);
    return turn ? turns.open(turn) : streamParts(call);
  }

  /** Streams the answer of a call that is not a turn. */
  async function* streamParts(call: AgentCall): AsyncGenerator<StreamPart> {
    const operation = begin(call);
    let begun = false;
    try {
      const parts = stream(await operation.unlessAborted(toParts(operation)), call.question);
      for await (const part of follow(operation, parts)) {
        begun = true;
        yield part;
      }
    } catch (error) {
      const failure = await toFailure(operation, error);
      if (!begun) throw failure;
      yield { type: "error", error: failure };
    } finally {
      end(operation);
    }
  }

  async function append(...[key, message, request]: Parameters<Agents["append"]>): Promise<string> {
    if (closing) throw shuttingDown();
    const history = new HistoryBytes(request.reservation ?? budget.createReservation(), "refuse");
    const signal = AbortSignal.any([request.signal, closed.signal]);
    const admit = (bytes: number): Promise<void> => history.admit(bytes, signal);
    try {
      return await appendMessage({ conversations, admit, signal, now: () => clock.now() }, key, message);
    } catch (error) {
      throw request.signal.aborted ? clientLeft() : error;
    } finally {
      history.close();
    }
  }

  async function toFailure(operation: Operation, error: unknown): Promise<ServeError> {
    const failure = await operation.fail(await loadSdk().catch(() => undefined), error);
    if (operation.isStep && failure instanceof DeletedConversationError)
      return new AgentError(failure.status, failure.message, { retry: false });
    if (!(failure instanceof ModelError)) return failure;
    const { status, message, cause, retry, detail } = failure;
    // The caller of a workflow has not called the model, so that its 400 or 429 does not answer them.
    if (operation.isStep) return new AgentError(status, message, { cause, retry });
    return showDetail ? new DetailedError(failure, { detail }, []) : failure;
  }

  async function close({ drainMs }: { drainMs: number }): Promise<void> {
    const idle = Promise.withResolvers<void>();
    closing = idle;
    watch.close();
    checkIdle();
    const late = setTimeout(() => {
      closed.abort(shuttingDown());
      turns.close();
      for (const operation of requests) operation.abort(shuttingDown());
      // A stream whose reader has stopped pulling never reaches its `finally` block.
      setTimeout(idle.resolve, lastWordMs);
    }, drainMs);
    await idle.promise;
    clearTimeout(late);
    await checker.close();
  }

  function checkIdle(): void {
    if (closing && requests.size === 0) closing.resolve();
  }

  return {
    conversations,
    limits,
    checker,
    generate: generateAnswer,
    open,
    async begin(call) {
      const turn = asTurn(call);
      if (!turn) throw badRequest("Invalid request: respond-async needs a stored conversation");
      return turns.begin(turn, true);
    },
    append,
    continueWaiting: () => watch.open(),
    turns,
    modelCalls,
    ask: createAsk(streamParts),
    loadedTools: (agent) => loaded.get(agent) ?? null,
    running: (agentId) => [...requests, ...steps].filter(({ agent }) => agent.id === agentId).length,
    close,
  };
}

/** Returns the call as one that begins a turn; undefined if it has no stored conversation. */
function asTurn({ program, ...call }: AgentCall): TurnCall | undefined {
  const isStored = call.agent.memory && call.callContext.conversationId !== undefined;
  return program && isStored ? { ...call, program } : undefined;
}

/** Max turns of one user that continue without a reader. */
const detachedOfUser = 5;

/** Yields parts from the first output of the model on, so that an earlier failure becomes an error response. */
async function* follow(operation: Operation, parts: AsyncGenerator<StreamPart>): AsyncGenerator<StreamPart> {
  const held: StreamPart[] = [];
  let begun = false;
  try {
    for (;;) {
      const { done, value: part } = await operation.unlessAborted(parts.next());
      if (done) return;
      held.push(part);
      begun ||= part.type !== "start" && part.type !== "start-step";
      if (begun) yield* held.splice(0);
    }
  } finally {
    // Not awaited: the generator may be waiting for a promise that never settles.
    void parts.return(undefined).catch(() => {});
  }
}

/** Returns the whole answer of a turn. */
async function readAnswer(parts: AsyncGenerator<StreamPart>): Promise<Answer> {
  for await (const part of parts) {
    if (part.type === "error") throw part.error;
    if (part.type === "abort") throw stopped();
    if (part.type === "finish") return part.answer;
  }
  throw clientLeft();
}

/** The time in milliseconds that aborted calls have to send their error. */
const lastWordMs = 100;
