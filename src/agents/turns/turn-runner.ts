import type { CallParts, Question } from "../call/question.ts";
import { toWaitingAnswer, type StreamPart } from "../call/answers/answer.ts";
import { clientLeft, ServeError } from "../../core/error.ts";
import { newId } from "../../core/id.ts";
import type { ConversationKey, Conversations } from "../../engine/contract/conversations.ts";
import type { Engine } from "../../engine/contract/engine.ts";
import type { FoundCall } from "../../engine/stored/pending-calls.ts";
import type { StepCaller } from "../../engine/runtime.ts";
import type { AgentCalls } from "../agent-calls.ts";
import { stream } from "../call/call.ts";
import type { Operation } from "../call/operation.ts";
import { reportTool } from "../call/tool-failure.ts";
import { openStored, type CallOrigin, type HeldDecisions, type HeldStoredTurn } from "../call/history/open-turn.ts";
import type { AgentDefinition } from "../define.ts";
import { toResultParts } from "../messages/result-parts.ts";
import type { ObjectShape } from "../schemas/object-shape.ts";
import { SuspendedCall } from "../tools/no-result.ts";
import type { ExecutionEnd, ToolTargets } from "../tools/outside.ts";
import { LiveTurn } from "./live-turn.ts";
import { ExpectedTurns } from "./expected-turns.ts";
import { finishStopped, keepResults, type TurnRun } from "./stopped-turn.ts";
import { fromExecution, toExecution, type TurnCall } from "./stored-turn.ts";
import type { Turns } from "./turns.ts";

export interface TurnRunnerParts {
  readonly engine: Pick<Engine, "begin" | "clock">;
  readonly conversations: Conversations;
  readonly calls: AgentCalls;
  readonly turns: Turns;
  readonly findAgent: ToolTargets["findAgent"];
  /** Called for each execution that a stored answer waits for. */
  onWait(executionId: string): void;
}

/** A call that begins a turn. */
interface NewTurn {
  readonly id: string;
  readonly call: TurnCall;
  readonly operation: Operation;
  /** Releases the reserved place of a turn without a reader. Undefined if the turn has a reader. */
  readonly release: (() => void) | undefined;
}
/** A turn that its request hands over to the engine. */
interface Handover {
  readonly operation: Operation;
  readonly question: Question;
  /** Undefined if another process has stored the turn. */
  readonly run: TurnRun | undefined;
}

/**
 * Begins and runs the turns of conversations.
 *
 * T1. A turn begins with one commit: its execution, and the user's message. From then on the engine runs it. Neither a
 *     disconnected client nor a crash ends it.
 * T2. It ends in its conversation: with its answer, with a part of it after a stop, or without one.
 * T3. Turns of a conversation run one after the other.
 */
export class TurnRunner {
  readonly #parts: TurnRunnerParts;
  readonly #handovers = new Map<string, Handover>();
  /** The requests that wait for the end of an execution. */
  readonly expected: ExpectedTurns;

  constructor(parts: TurnRunnerParts) {
    this.#parts = parts;
    this.expected = new ExpectedTurns(parts.conversations, (key) => parts.turns.find(key));
  }

  /** Begins a turn, and returns its answer. */
  async open(call: TurnCall): Promise<AsyncGenerator<StreamPart>> {
    const turn = await this.beginTurn(call);
    if (turn.waiting?.continuedIn) throw new ContinuedElsewhere(turn.waiting.continuedIn);
    return this.#parts.turns.read(turn, call.signal);
  }

  /**
   * Begins a turn after the earlier ones of the conversation. It is durable when it resolves. Until then, a client that
   * disconnects drops it, unless the turn is to run without a reader.
   */
  async beginTurn(call: TurnCall, isDetached = false): Promise<LiveTurn> {
    const { calls, turns } = this.#parts;
    const release = isDetached ? turns.reserve(call.callContext.userId) : undefined;
    try {
      const operation = calls.beginCall({ ...call, signal: undefined, mayWait: true });
      return await this.#open({ id: newId(), call, operation, release });
    } finally {
      release?.();
    }
  }

  async #open(start: NewTurn): Promise<LiveTurn> {
    const { calls, turns } = this.#parts;
    const { id, call, operation, release } = start;
    const leave = (): void => operation.abort(clientLeft());
    if (!release) call.signal.addEventListener("abort", leave, { once: true });
    if (!release && call.signal.aborted) leave();
    let held: HeldStoredTurn | HeldDecisions | undefined;
    let turn: LiveTurn | undefined;
    try {
      const parts = await operation.unlessAborted(calls.toParts(operation));
      const question: Question = { ...call.question, turnName: id, isNew: true };
      const shape = await question.toShape?.(); // an invalid schema begins nothing
      const opening = openStored(parts, question);
      closeIfLate(operation, opening);
      const opened = await operation.unlessAborted(opening);
      held = opened;
      operation.signal.throwIfAborted();
      call.signal.removeEventListener("abort", leave); // from here on, the turn has a reader that may leave
      if (opened.type === "undecided") return await this.#storeDecisions(start, opened);
      turn = new LiveTurn(id, toKey(call.agent, call.callContext), opened);
      await this.#commit(start, { turn, parts, opened }, shape);
      return turn;
    } catch (error) {
      call.signal.removeEventListener("abort", leave);
      release?.();
      this.#handovers.delete(id);
      if (turn) turns.remove(turn);
      void held?.close();
      const failure = await calls.toFailure(operation, error);
      calls.endCall(operation);
      throw failure;
    }
  }

  /** Commits the execution of a turn and the user's message. */
  async #commit(
    { id, call, operation, release }: NewTurn,
    run: TurnRun,
    shape: ObjectShape | undefined,
  ): Promise<void> {
    const { engine, turns } = this.#parts;
    const { agent, options = {}, program, question } = call;
    const { turn, opened } = run;
    turns.add(turn);
    release?.();
    turn.isAwaited = !release;
    turn.continues = release !== undefined || (agent.onDisconnect === "continue" && options.onDisconnect !== "abort");
    turn.isRunning = true;
    // Its messages are opened.
    this.#handovers.set(id, { operation, question: { input: [], toShape: shape && (async () => shape) }, run });
    const { answerId, questionId } = turn;
    const execution = toExecution(call, { id, answerId, opened, at: engine.clock.now() });
    // If the question cannot be stored, the turn ends there, and its reader gets the error.
    const write = async (): Promise<void> => opened.storeQuestion?.().catch((error: unknown) => operation.abort(error));
    await engine.begin(execution, program, { write, turn: { answerId, questionId } });
    for (const { end, ...failed } of question.ended ?? [])
      if ("error" in end) reportTool(operation, failed, new ServeError(500, end.error));
  }

  /** Stores decisions while others are missing. Returns a turn that does not run. */
  async #storeDecisions({ id, call, operation, release }: NewTurn, opened: HeldDecisions): Promise<LiveTurn> {
    const { waiting } = opened;
    release?.();
    const key = toKey(call.agent, call.callContext);
    const signal = AbortSignal.any([call.signal, operation.signal]);
    const store = async (): Promise<void> => {
      await opened.storeQuestion();
      await opened.close();
    };
    const { suspensions, next, isElsewhere } = await this.expected.resume({ operation, waiting, key, signal, store });
    const turn = next ?? new LiveTurn(id, key, opened);
    if (!next) {
      const answer = toWaitingAnswer(waiting, suspensions);
      turn.waiting = { answer, continuedIn: isElsewhere ? key : undefined };
      turn.log.add({ type: "start", messageId: waiting.messageId });
      turn.log.add({ type: "finish", answer });
      turn.log.end();
    }
    this.#parts.calls.endCall(operation);
    return turn;
  }

  /** Continues an answer whose call has waited for the end of an execution. */
  async continueWith({ id, key, toolName: name, toolCallId, origin }: FoundCall, end: ExecutionEnd): Promise<void> {
    const { agentId, userId, conversationId } = key;
    const agent = this.#parts.findAgent(agentId);
    if (!agent) throw new ServeError(404, `Agent ${agentId} not found`); // it continues at a start with the agent
    const { user, context = {}, options } = JSON.parse(origin ?? "{}") as Partial<CallOrigin>;
    const { definition, program } = agent;
    const question = { input: [], ended: [{ id, name, toolCallId, end }] };
    const callContext = { userId, user, context, conversationId };
    const { signal } = new AbortController();
    const turn = await this.beginTurn({ agent: definition, program, question, options, callContext, signal }, true);
    this.expected.resolve(id, turn);
  }

  /** Runs a turn to its end. Called by the engine for new turns, and for unfinished turns of another process. */
  async runTurn(agent: AgentDefinition, caller: StepCaller): Promise<void> {
    const { calls, turns, onWait } = this.#parts;
    const { execution } = caller;
    const { id } = execution;
    const handover = this.#handovers.get(id) ?? this.#repeat(agent, caller);
    this.#handovers.delete(id);
    const { operation, question } = handover;
    let { run } = handover;
    run?.turn.bind(operation);
    try {
      const records = await operation.unlessAborted(caller.openRecords(""));
      operation.record({ id, records, maySuspend: true });
      if (!run) {
        const parts = await operation.unlessAborted(calls.toParts(operation));
        const opening = reopen(parts, question);
        closeIfLate(operation, opening);
        const opened = await operation.unlessAborted(opening);
        run = { turn: new LiveTurn(id, toKey(agent, execution), opened), parts, opened };
        turns.add(run.turn);
      }
      await this.#stream(run, handover);
    } catch (error) {
      const failure = await calls.toFailure(operation, error);
      if (run) await this.#fail(run, failure);
    } finally {
      void run?.opened.close(turns.isUnfinished(run.turn));
      calls.endCall(operation);
      if (run) turns.end(run.turn);
    }
    for (const call of operation.suspended.values()) if (call instanceof SuspendedCall) onWait(call.executionId);
    // No result: the engine repeats the turn at the next start.
    if (turns.isUnfinished(run?.turn)) await new Promise<never>(() => {});
  }

  /** Returns the call of a turn that another process has stored. */
  #repeat(agent: AgentDefinition, { execution, signal }: StepCaller): Handover {
    const { calls } = this.#parts;
    const { question, options } = fromExecution(execution, (schema) => calls.toShape(schema));
    const call = { agent, question, options, callContext: execution, signal, mayWait: true };
    return { operation: calls.beginCall(call, true), question, run: undefined };
  }

  /** Writes the answer into the log of the turn. */
  async #stream({ turn, parts, opened }: TurnRun, { operation, question, run }: Handover): Promise<void> {
    turn.bind(operation);
    turn.isRunning = true;
    opened.listen?.(turn);
    const { records } = operation;
    if (!records?.found) {
      if (!run) await opened.storeQuestion?.();
      records?.endStopped();
    }
    for await (const part of this.#parts.calls.follow(operation, stream(parts, question, opened))) {
      turn.log.add(part);
      if (part.type === "start") for (const result of toResultParts(opened.results)) turn.log.add(result as never);
      // At once: a reader with the whole answer does not leave a running turn.
      if (part.type === "finish") turn.log.end();
    }
  }

  async #fail(run: TurnRun, failure: ServeError): Promise<void> {
    const { calls, turns } = this.#parts;
    const { turn, parts, opened } = run;
    if (turn.interruption === "stopped" || parts.operation.records?.wasStopped) {
      return finishStopped(run).catch(async (error: unknown) =>
        turn.log.fail(await calls.toFailure(parts.operation, error)),
      );
    }
    if (!turns.isUnfinished(turn)) await keepResults(run);
    await opened.close(turns.isUnfinished(turn)); // before its readers know it
    turn.log.fail(failure);
  }
}

/** Closes a turn that is opened after the abort of its call. */
function closeIfLate({ signal }: Operation, opening: Promise<HeldStoredTurn | HeldDecisions>): void {
  opening.then(
    (late) => signal.aborted && void late.close(),
    () => {},
  );
}

/** Opens a stored turn again. Its calls are decided. */
async function reopen(parts: CallParts, question: Question): Promise<HeldStoredTurn> {
  const turn = await openStored(parts, question);
  if (turn.type === "stored") return turn;
  void turn.close();
  throw new ServeError(409, "The turn has ended", { retry: false });
}

const toKey = (
  { id: agentId }: AgentDefinition,
  {
    userId,
    conversationId = "",
  }: { readonly userId?: string | undefined; readonly conversationId?: string | undefined },
): ConversationKey => ({ agentId, userId, conversationId });

/** The refusal of a call whose answer is made by another process. */
export class ContinuedElsewhere extends ServeError {
  readonly key: ConversationKey;
  constructor(key: ConversationKey) {
    super(409, "The answer continues on another replica: read the conversation", { retry: false });
    this.key = key;
  }
}
