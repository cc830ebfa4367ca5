import { setTimeout as sleep } from "node:timers/promises";
import type { UIMessageChunk } from "ai";
import { busy, ServeError } from "../../core/error.ts";
import { newId } from "../../core/id.ts";
import type { Engine, Program } from "../../engine/backend.ts";
import type { Conversations, ConversationKey } from "../../engine/conversations.ts";
import type { StepCaller } from "../../engine/runtime.ts";
import { toTurnsId } from "../../engine/turn-execution.ts";
import {
  openTurn,
  storeStopped,
  stream,
  type AgentCall,
  type CallParts,
  type HeldTurn,
  type Question,
  type StreamPart,
} from "../call/call.ts";
import type { AgentInput } from "../call/messages.ts";
import type { AgentCallOptions, Operation } from "../call/operation.ts";
import { toChat } from "../answers/chat.ts";
import type { AgentDefinition } from "../define.ts";
import { readMessages } from "../messages/read-messages.ts";
import { toChunks } from "../messages/ui-chunks.ts";
import type { StoredUiMessage } from "../messages/ui-message.ts";
import type { ObjectShape } from "../schemas/object-shape.ts";
import { LiveTurn } from "./live-turn.ts";

/** A call that begins a turn of a stored conversation. */
export interface TurnCall extends Omit<AgentCall, "step" | "turn"> {
  readonly program: Program;
}
/** A turn as it is stored: everything that a repetition needs. */
interface StoredTurn {
  readonly input: AgentInput;
  readonly field?: string | undefined;
  readonly regenerate?: string | undefined;
  readonly schema?: Record<string, unknown> | undefined;
  readonly options: AgentCallOptions;
  readonly answerId: string;
  /** The time of the user's message. */
  readonly at?: number | undefined;
}

export interface TurnsParts {
  readonly engine: Pick<Engine, "begin" | "clock">;
  readonly conversations: Conversations;
  /** The most turns that continue without a reader: of the process, and of one user. */
  readonly detached: { readonly most: number; readonly ofUser: number };
  /** Begins a call. Throws if there are too many. */
  begin(call: AgentCall, isRepeated: boolean): Operation;
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
  /** The last answers of conversations, with the times of their ends. */
  readonly #ended = new Map<string, { readonly answerId: string; readonly at: number }>();
  /** The turns without a reader that are about to begin. */
  readonly #beginning = new Set<{ readonly userId: string | undefined }>();
  #isClosing = false;

  constructor(parts: TurnsParts) {
    this.#parts = parts;
  }

  /** Begins a turn and reads its answer. */
  async *stream(call: TurnCall): AsyncGenerator<StreamPart> {
    const turn = await this.begin(call);
    yield* this.read(turn, call.signal);
  }

  /**
   * Begins a turn, when those before it in the conversation have ended. It is durable when it resolves. A client that leaves
   * before that drops it, unless the turn is to run without a reader.
   */
  async begin({ program, ...call }: TurnCall, isDetached = false): Promise<LiveTurn> {
    const { engine } = this.#parts;
    const { userId: owner } = call.callContext;
    if (isDetached && !this.#mayDetach(owner, 1)) throw tooManyDetached();
    const id = newId();
    const beginning = { userId: owner };
    const { schema, input, field, regenerate } = call.question;
    const leaving = new AbortController();
    const leave = (): void => leaving.abort();
    const operation = this.#parts.begin({ ...call, signal: leaving.signal }, false);
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
        (turn) => operation.signal.aborted && turn.close(),
        () => {},
      );
      opened = await operation.unlessAborted(held);
      operation.signal.throwIfAborted();
      call.signal.removeEventListener("abort", leave); // from here on, the turn has a reader that may leave
      const { options = {}, callContext, agent } = call;
      const turn = this.#add(id, agent, callContext, opened);
      this.#beginning.delete(beginning);
      turn.isAwaited = !isDetached;
      turn.continues = isDetached || (agent.onDisconnect === "continue" && options.onDisconnect !== "abort");
      const sent = opened.isLastEnough && typeof input !== "string" ? input.slice(-1) : input;
      const { answerId } = turn;
      const stored: StoredTurn = { input: sent, field, regenerate, schema, options, answerId, at: opened.at };
      this.#handovers.set(id, {
        operation,
        parts,
        opened,
        question: { ...question, toShape: shape && (async () => shape) },
      });
      const { userId, user, conversationId, context } = callContext;
      const execution = {
        id,
        workflowId: toTurnsId(agent.id),
        input: JSON.stringify(stored),
        startAt: engine.clock.now(),
        steps: program.steps,
        userId,
        user,
        conversationId,
        context,
      };
      turn.isRunning = true;
      // If the question cannot be stored, the turn ends there, and its reader gets the error.
      const storeQuestion = (): Promise<void> =>
        opened!.storeQuestion?.().catch((error: unknown) => operation.abort(error)) ?? Promise.resolve();
      await engine.begin(execution, program, "fresh", storeQuestion);
      return turn;
    } catch (error) {
      call.signal.removeEventListener("abort", leave);
      this.#beginning.delete(beginning);
      this.#remove(id);
      opened?.close();
      const failure = await this.#parts.toFailure(operation, error);
      this.#parts.end(operation);
      throw failure;
    }
  }

  #add(
    id: string,
    agent: AgentDefinition,
    { userId, conversationId = "" }: { userId?: string | undefined; conversationId?: string | undefined },
    { answerId, questionId, before }: HeldTurn,
  ): LiveTurn {
    const key = toKey({ agentId: agent.id, userId, conversationId });
    const turn = new LiveTurn({ id, key, userId, answerId: answerId(), questionId, before });
    this.#live.set(id, turn);
    return turn;
  }

  #remove(id: string): void {
    this.#live.delete(id);
    this.#handovers.delete(id);
  }

  /** Reads the answer of a turn. A turn without a reader continues, unless there are too many of them. */
  read(turn: LiveTurn, signal: AbortSignal): AsyncGenerator<StreamPart> {
    return turn.read(signal, () => {
      if (turn.log.readers === 0 && !(turn.continues && this.#mayDetach(turn.userId))) turn.interrupt("left");
    });
  }

  /** Whether there may be the turns without a reader that there are, and some more. */
  #mayDetach(userId: string | undefined, more = 0): boolean {
    const { most, ofUser } = this.#parts.detached;
    const live = [...this.#live.values()].filter(({ log, isAwaited }) => log.readers + +isAwaited === 0 && !log.isOver);
    const detached = [...live, ...this.#beginning];
    const own = detached.filter((turn) => userId !== undefined && turn.userId === userId);
    return detached.length + more <= most && own.length + more <= ofUser;
  }

  /** The turn of a conversation that runs. */
  find(key: ConversationKey): LiveTurn | undefined {
    const text = toKey(key);
    return [...this.#live.values()].find((turn) => turn.key === text && turn.isRunning && !turn.log.isOver);
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
    const ended = this.#ended.get(toKey(key));
    if (!ended || after === undefined || after === ended.answerId || this.#isOld(ended)) return undefined;
    const message = (await readMessages(this.#parts.conversations, key, { limit: 1 })).at(-1);
    return message?.id === ended.answerId ? toStoredChat(message) : undefined;
  }

  #isOld({ at }: { readonly at: number }): boolean {
    return this.#parts.engine.clock.monotonic() - at > replayMs;
  }

  #keep({ key, answerId }: LiveTurn): void {
    this.#ended.delete(key); // the order of the map is that of the ends
    this.#ended.set(key, { answerId, at: this.#parts.engine.clock.monotonic() });
    for (const [old, ended] of this.#ended) {
      if (this.#ended.size <= mostEnded && !this.#isOld(ended)) break;
      this.#ended.delete(old);
    }
  }

  /** Stops the turn that runs. Throws 409 if the message is not of that turn. */
  stop(key: ConversationKey, messageId: string | undefined): { stopped: boolean; messageId: string | null } {
    const turn = this.find(key);
    if (messageId !== undefined && messageId !== turn?.answerId && messageId !== turn?.questionId) {
      throw new ServeError(409, "That turn has ended");
    }
    turn?.interrupt("stopped");
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
    const given = this.#handovers.get(id) ?? this.#repeat(agent, caller);
    const { operation, question } = given;
    let turn = this.#live.get(id);
    turn?.bind(operation);
    let { parts, opened } = given;
    try {
      operation.record({ id, records: await operation.unlessAborted(caller.openRecords("")) });
      parts ??= await operation.unlessAborted(this.#parts.toParts(operation));
      opened ??= await operation.unlessAborted(openTurn(parts, question));
      turn ??= this.#add(id, agent, execution, opened);
      turn.bind(operation);
      turn.isRunning = true;
      if (!given.opened && !operation.records?.found) await opened.storeQuestion?.();
      for await (const part of this.#parts.follow(operation, stream(parts, question, opened))) {
        turn.log.add(part);
        // At once: a reader that has the whole answer does not leave a turn that runs.
        if (part.type === "finish") turn.log.end();
      }
    } catch (error) {
      const failure = await this.#parts.toFailure(operation, error);
      if (turn?.interruption === "stopped" && parts && opened) await this.#finishStopped(turn, parts, opened);
      else if (turn) endWithFailure(turn, failure);
    } finally {
      opened?.close();
      this.#parts.end(operation);
      this.#remove(id);
      if (turn) this.#keep(turn);
    }
    // No result: the engine repeats the turn at the next start.
    if (turn ? turn.interruption === "closing" : this.#isClosing) await new Promise<never>(() => {});
  }

  /** The call of a turn that the last process left. */
  #repeat(agent: AgentDefinition, { execution, signal }: StepCaller): Handover {
    const stored = JSON.parse(execution.input) as StoredTurn;
    const { schema, options, ...rest } = stored;
    const question: Question = {
      ...rest,
      turnName: execution.id,
      isNew: false,
      toShape: schema && (() => this.#parts.toShape(schema)),
    };
    const operation = this.#parts.begin({ agent, question, options, callContext: execution, signal }, true);
    return { operation, question };
  }

  async #finishStopped(turn: LiveTurn, parts: CallParts, opened: HeldTurn): Promise<void> {
    const calls = parts.operation.records?.ends ?? [];
    const stillness = sleep(stopMs, undefined, { ref: false });
    const ends = new Map<string, unknown>();
    await Promise.race([
      Promise.all([...calls].map(async ([toolCallId, end]) => ends.set(toolCallId, await end))),
      stillness,
    ]);
    if (!turn.log.hasParts) turn.log.add({ type: "start", messageId: turn.answerId });
    for (const part of toToolEnds(opened, ends)) {
      opened.recorded!.add(part as never);
      turn.log.add(part as never);
    }
    try {
      await storeStopped(parts, opened);
      turn.log.add({ type: "abort", reason: "Stopped" });
      turn.log.end();
    } catch (error) {
      endWithFailure(turn, await this.#parts.toFailure(parts.operation, error));
    }
  }
}

/** The time after its end for which an answer is still streamed, and the most answers that this is known of. */
const replayMs = 30_000;
const mostEnded = 10_000;

async function* toStoredChat({ id, parts }: StoredUiMessage): AsyncGenerator<UIMessageChunk> {
  yield { type: "start", messageId: id };
  yield* toChunks(parts);
  yield { type: "finish" };
}

/** The time that tools get to end after a stop. */
const stopMs = 100;

/** Returns the parts that end the open tool calls of an answer: with their results, or with the error `Stopped`. */
function toToolEnds({ recorded }: HeldTurn, ends: ReadonlyMap<string, unknown>): object[] {
  const all = recorded?.all ?? [];
  const ended = new Set(
    all.flatMap((part) => (part.type === "tool-result" || part.type === "tool-error" ? part.toolCallId : [])),
  );
  return all.flatMap((part): object[] => {
    if (part.type !== "tool-call" || part.providerExecuted || ended.has(part.toolCallId)) return [];
    const { toolCallId, toolName, input, dynamic } = part;
    const call = { toolCallId, toolName, input, dynamic };
    const end = ends.get(toolCallId) as { output: unknown } | { error: string } | undefined;
    if (end && "output" in end) return [{ type: "tool-result", ...call, output: end.output }];
    return [{ type: "tool-error", ...call, error: "Stopped" }];
  });
}

function endWithFailure(turn: LiveTurn, error: ServeError): void {
  if (turn.log.isOver) return; // it has its whole answer
  const isBegun = turn.log.hasParts;
  if (isBegun) turn.log.add({ type: "error", error });
  turn.log.end(isBegun ? undefined : { error });
}

const toKey = ({ agentId, userId, conversationId }: ConversationKey): string =>
  JSON.stringify([agentId, userId ?? null, conversationId]);

/** The refusal of a turn that would run without a reader. */
const tooManyDetached = (): ServeError => busy("Too many turns run without a reader", 5);
