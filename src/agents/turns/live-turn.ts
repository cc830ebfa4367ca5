import { busy, clientLeft, shuttingDown } from "../../core/error.ts";
import { within } from "../../core/within.ts";
import type { Answer, StreamPart } from "../call/call.ts";
import type { Operation } from "../call/operation.ts";
import { stopped, type RecordedCalls } from "../call/recorded-calls.ts";
import type { ShownMessages } from "../call/turn.ts";
import type { UiParts } from "../messages/ui-message.ts";
import type { JsonText } from "../../core/json.ts";
import type { ConversationKey, TurnListener } from "../../engine/contract/conversations.ts";
import { toChat } from "../answers/chat.ts";
import { AnswerLog } from "./answer-log.ts";

/** The reason why a turn was ended from outside. */
type Interruption = "left" | "stopped" | "closing";

/** The time that a caller waits until its stop is durable. */
const storeMs = 5_000;

/** A turn of a conversation that runs in this process, or waits for those before it. */
export class LiveTurn implements TurnListener {
  readonly id: string;
  /** The conversation. */
  readonly key: string;
  readonly userId: string | undefined;
  /** The id of the answer, and that of the user's message if it has one. */
  readonly answerId: string;
  readonly questionId: string | undefined;
  /** The parts of the message that the answer continues. */
  readonly before: UiParts | undefined;
  /** The messages before the answer, if it replaces others. */
  readonly shown: ShownMessages | undefined;
  /** The answer to decisions after which the message still waits: nothing runs. */
  waiting: Answer | undefined;
  /** The conversation in which another process continues the message: nothing runs here. */
  continuedIn: ConversationKey | undefined;
  readonly log: AnswerLog = new AnswerLog();
  /** Whether it continues without a reader. */
  continues = true;
  /** Whether its first reader is about to come. */
  isAwaited = false;
  /** Whether the turns before it have ended. */
  isRunning = false;
  #operation: Operation | undefined;
  #interruption: Interruption | undefined;
  readonly #recording = Promise.withResolvers<RecordedCalls>();
  readonly #ended = Promise.withResolvers<void>();

  constructor(turn: Pick<LiveTurn, "id" | "key" | "userId" | "answerId" | "questionId" | "before" | "shown">) {
    this.id = turn.id;
    this.key = turn.key;
    this.userId = turn.userId;
    this.answerId = turn.answerId;
    this.questionId = turn.questionId;
    this.before = turn.before;
    this.shown = turn.shown;
  }

  get interruption(): Interruption | undefined {
    return this.#interruption;
  }

  /** Binds the turn to the call that runs it. */
  bind(operation: Operation): void {
    this.#operation = operation;
    if (operation.records) this.#recording.resolve(operation.records);
    if (this.#interruption) operation.abort(errors[this.#interruption]());
  }

  /** Ends the turn. Only the first interruption counts. */
  interrupt(how: Interruption): void {
    if (this.#interruption || this.log.isOver) return;
    this.#interruption = how;
    if (this.#operation) this.#operation.abort(errors[how]());
    // The engine starts nothing any more.
    else if (how === "closing") this.log.end({ error: errors[how]() });
  }

  /** Stops the turn. Resolves when that is durable: from then on, a crash does not let the turn continue. */
  async stop(): Promise<void> {
    this.interrupt("stopped");
    // A turn that ends before its first record has none. One that has ended takes no record any more.
    const records = Promise.race([this.#recording.promise, this.#ended.promise]);
    const stored = records.then((found) => found?.saveStop().catch(() => this.#ended.promise));
    await within(storeMs, stored, {
      onLate: () => {
        throw busy("The turn was stopped, but storage cannot be written", 1);
      },
    });
    if (this.#interruption === "closing") throw shuttingDown();
  }
  /** The turn has ended in its conversation, or is left to the next start. */
  end(): void {
    this.#ended.resolve();
  }

  /** Reads the answer from its beginning, as chunks of a chat, for other processes. */
  async *follow(signal: AbortSignal): AsyncGenerator<JsonText> {
    for await (const chunk of toChat(this.log.read(signal, { isReader: false }), this.before))
      yield JSON.stringify(chunk);
  }

  /** Reads the answer from its beginning. `onLeave` is called when the reader is gone. */
  read(signal: AbortSignal, onLeave: () => void): AsyncGenerator<StreamPart> {
    this.isAwaited = false;
    return this.log.read(signal, { onLeave });
  }
}

const errors: Record<Interruption, () => Error> = {
  left: () => clientLeft(),
  stopped: () => stopped(),
  closing: () => shuttingDown(),
};
