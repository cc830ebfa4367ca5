import type { Reservation } from "../core/byte-budget.ts";
import { badRequest, clientLeft, shuttingDown } from "../core/error.ts";
import type { AskAgent } from "../engine/definition/step-context.ts";
import type { ConversationKey, Conversations } from "../engine/contract/conversations.ts";
import { AgentCalls, type AgentsOptions } from "./agent-calls.ts";
import { createAsk } from "./call/ask.ts";
import type { Answer, StreamPart } from "./call/answers/answer.ts";
import type { AgentCall } from "./call/question.ts";
import { stopped, type RecordLimits } from "./call/recorded-calls.ts";
import { appendMessage, type PersonMessage } from "./conversations/append-message.ts";
import { ExecutionWatch } from "./turns/execution-watch.ts";
import type { LiveTurn } from "./turns/live-turn.ts";
import type { TurnCall } from "./turns/stored-turn.ts";
import { TurnRunner } from "./turns/turn-runner.ts";
import { Turns } from "./turns/turns.ts";

/** The agents of one server: their calls and their turns. */
export class Agents {
  readonly conversations: Conversations;
  readonly limits: RecordLimits;
  readonly calls: AgentCalls;
  readonly turns: Turns;
  /** Runs the call of an `andAgent` step. */
  readonly ask: AskAgent;
  readonly runner: TurnRunner;
  readonly watch: ExecutionWatch;
  /** Aborted when the time of the shutdown is over. */
  readonly #closed = new AbortController();

  constructor(options: AgentsOptions) {
    const { engine, conversations, limits, logger, targets } = options;
    const calls = new AgentCalls(options);
    const turns = new Turns(conversations, engine.clock, limits.detachedTurns);
    this.runner = new TurnRunner({
      engine,
      conversations,
      calls,
      turns,
      findAgent: targets.findAgent,
      onWait: (executionId) => this.watch.check(executionId),
    });
    this.watch = new ExecutionWatch({
      engine,
      conversations,
      logger,
      readEnd: targets.read,
      continueWith: (call, end) => this.runner.continueWith(call, end),
      onDropped: (executionId) => this.runner.expected.reject(executionId),
    });
    this.conversations = conversations;
    this.limits = limits;
    this.calls = calls;
    this.turns = turns;
    this.ask = createAsk((call) => calls.stream(call));
  }

  /** Returns the whole answer. Every failure is thrown as a `ServeError`. */
  async generate(call: AgentCall): Promise<Answer> {
    const turn = asTurn(call);
    return turn ? readAnswer(await this.runner.open(turn)) : this.calls.generate(call);
  }

  /** Streams the answer. A failure after the first output of the model is the last part. */
  async open(call: AgentCall): Promise<AsyncGenerator<StreamPart>> {
    const turn = asTurn(call);
    return turn ? this.runner.open(turn) : this.calls.stream(call);
  }

  /** Begins a turn without a reader. Resolves when it is durable. */
  async beginTurn(call: AgentCall): Promise<LiveTurn> {
    const turn = asTurn(call);
    if (!turn) throw badRequest("Invalid request: respond-async needs a stored conversation");
    return this.runner.beginTurn(turn, true);
  }

  /** Stores a message of a person in a conversation. Resolves to its id when it is durable. */
  async append(
    key: ConversationKey,
    message: PersonMessage,
    request: { readonly signal: AbortSignal; readonly reservation?: Reservation | undefined },
  ): Promise<string> {
    const { calls, conversations } = this;
    if (calls.isClosing) throw shuttingDown();
    const history = calls.openHistory(request.reservation, "refuse");
    const signal = AbortSignal.any([request.signal, this.#closed.signal]);
    const admit = (bytes: number): Promise<void> => history.admit(bytes, signal);
    try {
      return await appendMessage({ conversations, admit, signal, now: () => calls.clock.now() }, key, message);
    } catch (error) {
      throw request.signal.aborted ? clientLeft() : error;
    } finally {
      history.close();
    }
  }

  /** Stops accepting calls and drains those in flight. Calls that run after `drainMs` fail with 503. */
  close({ drainMs }: { drainMs: number }): Promise<void> {
    const drained = this.calls.close(drainMs, () => {
      this.#closed.abort(shuttingDown());
      this.turns.close();
    });
    this.watch.close();
    return drained;
  }
}

/** Returns the call of a turn. Undefined for a call without a stored conversation. */
function asTurn({ program, ...call }: AgentCall): TurnCall | undefined {
  const isStored = call.agent.memory && call.callContext.conversationId !== undefined;
  return program && isStored ? { ...call, program } : undefined;
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
