import type { UIMessageChunk } from "ai";
import { busy, clientLeft, ServeError } from "../../core/error.ts";
import { newId } from "../../core/id.ts";
import type { Engine } from "../../engine/contract/engine.ts";
import type { Conversations, ConversationKey } from "../../engine/contract/conversations.ts";
import type { FoundCall } from "../../engine/stored/pending-calls.ts";
import type { StepCaller } from "../../engine/runtime.ts";
import {
  openTurn,
  stream,
  toWaitingAnswer,
  type BegunCall,
  type CallOrigin,
  type CallParts,
  type HeldTurn,
  type Question,
  type StreamPart,
} from "../call/call.ts";
import type { Operation } from "../call/operation.ts";
import { reportTool } from "../call/tool-failure.ts";
import type { WaitingAnswer } from "../call/turn-parts.ts";
import { toChat } from "../answers/chat.ts";
import type { AgentDefinition } from "../define.ts";
import { readMessages } from "../messages/read-messages.ts";
import { toResultParts } from "../messages/result-parts.ts";
import type { StoredUiMessage } from "../messages/ui-message.ts";
import type { ObjectShape } from "../schemas/object-shape.ts";
import type { ExecutionEnd, ToolTargets } from "../tools/outside.ts";
import { SuspendedCall } from "../tools/no-result.ts";
import { EndedTurns, toStoredChat } from "./ended-turns.ts";
import { LiveTurn } from "./live-turn.ts";
import { ExpectedTurns } from "./resumed-calls.ts";
import { finishStopped, keepResults } from "./stopped-turn.ts";
import { attachElsewhere, ContinuedElsewhere, refuseOther, stopElsewhere, type StopResult } from "./elsewhere.ts";
import { fromExecution, toExecution, type TurnCall } from "./stored-turn.ts";

export interface TurnsParts {
  readonly engine: Pick<Engine, "begin" | "clock">;
  readonly conversations: Conversations;
  /** Max turns that continue without a reader: of the process, and of one user. */
  readonly detached: { readonly max: number; readonly ofUser: number };
  /** Begins a call. Throws if there are too many. */
  begin(call: BegunCall, isRepeated: boolean): Operation;
  readonly findAgent: ToolTargets["findAgent"];
  /** Called when an answer is stored whose tools wait for executions. */
  onWait(executionId: string): void;
  end(operation: Operation): void;
  toParts(operation: Operation): Promise<CallParts>;
  toShape(schema: Record<string, unknown>): Promise<ObjectShape>;
  /** Reports a failure, and returns the error for the client. */
  toFailure(operation: Operation, error: unknown): Promise<ServeError>;
  /** Yields the parts of an answer from the first output of the model on, and throws when the call is aborted. */
  follow(operation: Operation, parts: AsyncGenerator<StreamPart>): AsyncGenerator<StreamPart>;
}

/** A turn that its request hands over to the engine. */
interface Handover {
  readonly operation: Operation;
  /** Undefined if the last process has begun it. */
  readonly parts?: CallParts;
  readonly opened?: HeldTurn;
  readonly question: Question;
}

/** Decisions after which a message still waits. */
interface StoredDecisions {
  readonly id: string;
  readonly call: TurnCall;
  readonly operation: Operation;
  readonly opened: HeldTurn;
  readonly waiting: WaitingAnswer;
}

/**
 * The turns of conversations that this process runs.
 *
 * T1. A turn begins with one commit: its execution, and the message of the user. From then on the engine runs it: a client
 *     that leaves or a process that dies does not end it.
 * T2. It ends in its conversation: with its answer, with the part of it that was made until it was stopped, or without one.
 * T3. Turns of a conversation run one after the other. At most one of them is `isRunning`.
 */
export class Turns {
  readonly #parts: TurnsParts;
  readonly #live = new Map<string, LiveTurn>();
  readonly #handovers = new Map<string, Handover>();
  readonly #ended: EndedTurns;
  /** The turns without a reader that are about to begin. */
  readonly #beginning = new Set<{ readonly userId: string | undefined }>();
  /** The requests that wait for the end of an execution. */
  readonly expected: ExpectedTurns;
  #isClosing = false;

  constructor(parts: TurnsParts) {
    this.#parts = parts;
    this.#ended = new EndedTurns(parts.engine.clock);
    this.expected = new ExpectedTurns(parts.conversations, (key) => this.find(key));
  }

  /** Begins a turn, and returns its answer. */
  async open(call: TurnCall): Promise<AsyncGenerator<StreamPart>> {
    const turn = await this.begin(call);
    if (turn.continuedIn) throw new ContinuedElsewhere(turn.continuedIn);
    return this.read(turn, call.signal);
  }

  /**
   * Begins a turn, when those before it in the conversation have ended. It is durable when it resolves. A client that leaves
   * before that drops it, unless the turn is to run without a reader.
   */
  async begin(call: TurnCall, isDetached = false): Promise<LiveTurn> {
    const { engine } = this.#parts;
    const { program } = call;
    const { userId: owner } = call.callContext;
    if (isDetached && !this.#mayDetach(owner, 1)) throw tooManyDetached();
    const id = newId();
    const beginning = { userId: owner };
    const operation = this.#parts.begin({ ...call, signal: undefined, mayWait: true }, false);
    const leave = (): void => operation.abort(clientLeft());
    if (isDetached) this.#beginning.add(beginning);
    else call.signal.addEventListener("abort", leave, { once: true });
    if (call.signal.aborted && !isDetached) leave();
    let opened: HeldTurn | undefined;
    try {
      const parts = await operation.unlessAborted(this.#parts.toParts(operation));
      const question: Question = { ...call.question, turnName: id, isNew: true };
      const shape = await question.toShape?.(); // an invalid schema begins nothing
      const held = openTurn(parts, question);
      held.then(
        (turn) => operation.signal.aborted && void turn.close(),
        () => {},
      );
      opened = await operation.unlessAborted(held);
      operation.signal.throwIfAborted();
      call.signal.removeEventListener("abort", leave); // from here on, the turn has a reader that may leave
      if (opened.waiting) {
        this.#beginning.delete(beginning);
        return await this.#storeDecisions({ id, call, operation, opened, waiting: opened.waiting });
      }
      const { options = {}, callContext, agent } = call;
      const turn = this.#add(id, agent, callContext, opened);
      this.#beginning.delete(beginning);
      turn.isAwaited = !isDetached;
      turn.continues = isDetached || (agent.onDisconnect === "continue" && options.onDisconnect !== "abort");
      this.#handovers.set(id, {
        operation,
        parts,
        opened,
        question: { input: [], toShape: shape && (async () => shape) }, // its messages are opened
      });
      const execution = toExecution(call, { id, answerId: turn.answerId, opened, at: engine.clock.now() });
      turn.isRunning = true;
      // If the question cannot be stored, the turn ends there, and its reader gets the error.
      const storeQuestion = (): Promise<void> =>
        opened!.storeQuestion?.().catch((error: unknown) => operation.abort(error)) ?? Promise.resolve();
      const { answerId, questionId } = turn;
      const start = { answerId, questionId };
      await engine.begin(execution, program, { write: storeQuestion, turn: start });
      for (const { end, ...failed } of question.ended ?? [])
        if ("error" in end) reportTool(operation, failed, new ServeError(500, end.error));
      return turn;
    } catch (error) {
      call.signal.removeEventListener("abort", leave);
      this.#beginning.delete(beginning);
      this.#handovers.delete(id);
      const begun = this.#live.get(id);
      if (begun) this.#remove(begun);
      void opened?.close();
      const failure = await this.#parts.toFailure(operation, error);
      this.#parts.end(operation);
      throw failure;
    }
  }

  /** Stores decisions after which the message still waits. Returns a turn that has ended: nothing runs. */
  async #storeDecisions({ id, call, operation, opened, waiting }: StoredDecisions): Promise<LiveTurn> {
    const { agent, callContext } = call;
    const { userId, conversationId = "" } = callContext;
    const key: ConversationKey = { agentId: agent.id, userId, conversationId };
    const resumed = await this.expected.resume(operation, waiting, key);
    try {
      await opened.storeQuestion?.();
      await opened.close();
      const { suspensions, next, isElsewhere } = await resumed.settled(
        AbortSignal.any([call.signal, operation.signal]),
      );
      if (next) {
        this.#parts.end(operation);
        return next;
      }
      const turn = createLive(id, agent, callContext, opened);
      if (isElsewhere) turn.continuedIn = key;
      turn.log.add({ type: "start", messageId: waiting.messageId });
      turn.waiting = toWaitingAnswer(waiting, suspensions);
      turn.log.add({ type: "finish", answer: turn.waiting });
      turn.log.end();
      this.#parts.end(operation);
      return turn;
    } finally {
      resumed.close();
    }
  }

  /** Continues an answer with the end of the execution that a call of it waits for. */
  async continueWith(
    { id, key, toolName: name, toolCallId, origin = "{}" }: FoundCall,
    end: ExecutionEnd,
  ): Promise<void> {
    const { agentId, userId, conversationId } = key;
    const agent = this.#parts.findAgent(agentId);
    if (!agent) throw new ServeError(404, `Agent ${agentId} not found`); // it continues when the agent is back, at a start
    const { user, context = {}, options } = JSON.parse(origin) as Partial<CallOrigin>;
    const turn = await this.begin(
      {
        agent: agent.definition,
        program: agent.program,
        question: { input: [], ended: [{ id, name, toolCallId, end }] },
        options,
        callContext: { userId, user, context, conversationId },
        signal: new AbortController().signal,
      },
      true,
    );
    this.expected.begin(id, turn);
  }

  #add(...turn: Parameters<typeof createLive>): LiveTurn {
    const live = createLive(...turn);
    this.#live.set(live.id, live);
    return live;
  }

  #remove(turn: LiveTurn): void {
    turn.end();
    // Another run of the same turn may have begun, if this process was out of reach.
    if (this.#live.get(turn.id) === turn) this.#live.delete(turn.id);
  }

  /** Reads the answer of a turn. A turn without a reader continues, unless there are too many of them. */
  read(turn: LiveTurn, signal: AbortSignal): AsyncGenerator<StreamPart> {
    return turn.read(signal, () => {
      if (turn.log.readers === 0 && !(turn.continues && this.#mayDetach(turn.userId))) turn.interrupt("left");
    });
  }

  /** Whether there may be the turns without a reader that there are, and some more. */
  #mayDetach(userId: string | undefined, more = 0): boolean {
    const { max, ofUser } = this.#parts.detached;
    const live = [...this.#live.values()].filter(({ log, isAwaited }) => log.readers + +isAwaited === 0 && !log.isOver);
    const detached = [...live, ...this.#beginning];
    const own = detached.filter((turn) => userId !== undefined && turn.userId === userId);
    return detached.length + more <= max && own.length + more <= ofUser;
  }

  /** The turn of a conversation that runs. */
  find(key: ConversationKey): LiveTurn | undefined {
    const text = toKey(key);
    return [...this.#live.values()].find((turn) => turn.key === text && turn.isRunning && !turn.log.isOver);
  }

  /** The same, in any process. */
  async findAnywhere(key: ConversationKey): Promise<RunningTurn | undefined> {
    const turn = this.find(key);
    const { elsewhere } = this.#parts.conversations;
    if (turn || !elsewhere) return turn;
    const last = await elsewhere.last(key);
    return last?.endedAt === undefined ? last : undefined;
  }

  /**
   * Reads the answer that is being made, from its beginning. Shortly after its end, a client that does not have it gets it from
   * the conversation: `after` is its last message. Returns undefined if there is nothing to read.
   */
  async attach(
    key: ConversationKey,
    { after, signal }: { readonly after: string | undefined; readonly signal: AbortSignal },
  ): Promise<AsyncIterable<UIMessageChunk> | undefined> {
    const turn = this.find(key);
    if (turn) return toChat(this.read(turn, signal), turn.before);
    const { elsewhere } = this.#parts.conversations;
    const readLast = () => this.#readLast(key);
    if (elsewhere)
      return attachElsewhere({ elsewhere, key, after, signal, readLast, now: this.#parts.engine.clock.now() });
    const message = await this.#ended.find(toKey(key), after, readLast);
    return message && toStoredChat(message);
  }

  /** Reads the last answer of a conversation, from its beginning. Undefined: it was deleted, or is not the message `id`. */
  async attachLast(
    key: ConversationKey,
    signal: AbortSignal,
    id?: string,
  ): Promise<AsyncIterable<UIMessageChunk> | undefined> {
    const turn = id === undefined ? undefined : await this.findAnywhere(key);
    if (turn && turn.answerId !== id) return undefined;
    const chunks = await this.attach(key, { after: undefined, signal });
    if (chunks) return chunks;
    const message = await this.#readLast(key);
    return message?.role === "assistant" && message.id === (id ?? message.id) ? toStoredChat(message) : undefined;
  }

  async #readLast(key: ConversationKey): Promise<StoredUiMessage | undefined> {
    return (await readMessages(this.#parts.conversations, key, { limit: 1 })).at(-1);
  }

  /** Stops the turn that runs. Throws 409 if the message is not of that turn. The stop is durable when it resolves. */
  async stop(key: ConversationKey, messageId: string | undefined): Promise<StopResult> {
    const turn = this.find(key);
    const { elsewhere } = this.#parts.conversations;
    if (!turn && elsewhere) return stopElsewhere(elsewhere, key, messageId);
    refuseOther(turn, messageId);
    await turn?.stop();
    return { stopped: turn !== undefined, messageId: turn?.answerId ?? null };
  }

  /** The server is shutting down: turns continue at the next start. */
  close(): void {
    this.#isClosing = true;
    for (const turn of this.#live.values()) turn.interrupt("closing");
  }

  /** Runs a turn to its end. Called by the engine, for a turn that has begun here or was left by the last process. */
  async run(agent: AgentDefinition, caller: StepCaller): Promise<void> {
    const { execution } = caller;
    const { id } = execution;
    const handover = this.#handovers.get(id);
    this.#handovers.delete(id);
    const given = handover ?? this.#repeat(agent, caller);
    const { operation, question } = given;
    let turn = handover && this.#live.get(id);
    turn?.bind(operation);
    let { parts, opened } = given;
    try {
      operation.record({ id, records: await operation.unlessAborted(caller.openRecords("")) });
      parts ??= await operation.unlessAborted(this.#parts.toParts(operation));
      opened ??= await operation.unlessAborted(openTurn(parts, question));
      turn ??= this.#add(id, agent, execution, opened);
      turn.bind(operation);
      turn.isRunning = true;
      opened.listen?.(turn);
      operation.maySuspend = true;
      const { records } = operation;
      if (!given.opened && !records?.found) await opened.storeQuestion?.();
      if (!records?.found) records?.endStopped(); // nothing is recorded
      for await (const part of this.#parts.follow(operation, stream(parts, question, opened))) {
        turn.log.add(part);
        if (part.type === "start") for (const result of toResultParts(opened.results)) turn.log.add(result as never);
        // At once: a reader that has the whole answer does not leave a turn that runs.
        if (part.type === "finish") turn.log.end();
      }
    } catch (error) {
      const failure = await this.#parts.toFailure(operation, error);
      const isStopped = turn?.interruption === "stopped" || operation.records?.wasStopped;
      if (turn && isStopped && parts && opened) await this.#finishStopped(turn, parts, opened);
      else {
        if (parts && opened && !this.#isUnfinished(turn)) await keepResults(parts, opened);
        await opened?.close(this.#isUnfinished(turn)); // before its readers know it
        turn?.log.fail(failure);
      }
    } finally {
      void opened?.close(this.#isUnfinished(turn));
      this.#parts.end(operation);
      if (turn) this.#ended.add(turn);
      if (turn) this.#remove(turn);
    }
    for (const call of operation.suspended.values())
      if (call instanceof SuspendedCall) this.#parts.onWait(call.executionId);
    // No result: the engine repeats the turn at the next start.
    if (this.#isUnfinished(turn)) await new Promise<never>(() => {});
  }

  #isUnfinished(turn: LiveTurn | undefined): boolean {
    return turn ? turn.interruption === "closing" : this.#isClosing;
  }

  /** The call of a turn that the last process left. */
  #repeat(agent: AgentDefinition, { execution, signal }: StepCaller): Handover {
    const { question, options } = fromExecution(execution, (schema) => this.#parts.toShape(schema));
    const operation = this.#parts.begin(
      { agent, question, options, callContext: execution, signal, mayWait: true },
      true,
    );
    return { operation, question };
  }

  async #finishStopped(turn: LiveTurn, parts: CallParts, opened: HeldTurn): Promise<void> {
    try {
      await finishStopped(turn, parts, opened);
    } catch (error) {
      turn.log.fail(await this.#parts.toFailure(parts.operation, error));
    }
  }
}

/** A turn that runs. What it replaces is known in the process that runs it. */
export type RunningTurn = Pick<LiveTurn, "id" | "answerId"> & Partial<Pick<LiveTurn, "shown">>;

function createLive(
  id: string,
  agent: AgentDefinition,
  { userId, conversationId = "" }: { userId?: string | undefined; conversationId?: string | undefined },
  { answerId, questionId, before, shown }: HeldTurn,
): LiveTurn {
  const key = toKey({ agentId: agent.id, userId, conversationId });
  return new LiveTurn({ id, key, userId, answerId: answerId(), questionId, before, shown });
}

const toKey = ({ agentId, userId, conversationId }: ConversationKey): string =>
  JSON.stringify([agentId, userId ?? null, conversationId]);

/** The refusal of a turn that would run without a reader. */
const tooManyDetached = (): ServeError => busy("Too many turns run without a reader", 5);
