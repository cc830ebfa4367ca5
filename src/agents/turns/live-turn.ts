import { busy, clientLeft, shuttingDown } from "../../core/error.ts";
import { within } from "../../core/clock.ts";
import type { Answer, StreamPart } from "../call/answers/answer.ts";
import type { HeldDecisions, HeldStoredTurn } from "../call/history/open-turn.ts";
import type { Operation } from "../call/operation.ts";
import { stopped, type RecordedCalls } from "../call/recorded-calls.ts";
import type { ShownMessages } from "../call/history/turn-parts.ts";
import type { UiParts } from "../messages/ui-message.ts";
import type { JsonText } from "../../core/json.ts";
import type { ConversationKey, TurnListener } from "../../engine/contract/conversations.ts";
import { toKeyText } from "../../engine/stored/stored-conversation.ts";
import { toChat } from "../answers/chat.ts";
import { AnswerLog } from "./answer-log.ts";

/** The reason why a turn is interrupted. */
type Interruption = "left" | "stopped" | "closing";

/** Max wait of a caller for a durable stop. */
const storeMs = 5_000;

/** A turn of a conversation in this process. */
export class LiveTurn implements TurnListener {
  readonly id: string;
  /** The key of the conversation, as text. */
  readonly key: string;
  readonly userId: string | undefined;
  readonly answerId: string;
  /** The id of the user's message, if there is one. */
  readonly questionId: string | undefined;
  /** The parts of the message that the answer continues. */
  readonly before: UiParts | undefined;
  /** The messages before the answer, if it replaces others. */
  readonly shown: ShownMessages | undefined;
  /** The answer of a turn that does not run: decisions are missing, or another process continues the message. */
  waiting: { readonly answer: Answer; readonly continuedIn: ConversationKey | undefined } | undefined;
  readonly log: AnswerLog = new AnswerLog();
  /** True if it continues without a reader. */
  continues = true;
  /** True until its first reader reads it. */
  isAwaited = false;
  /** True when the earlier turns of the conversation are over. */
  isRunning = false;
  #operation: Operation | undefined;
  #interruption: Interruption | undefined;
  readonly #recording = Promise.withResolvers<RecordedCalls>();
  readonly #ended = Promise.withResolvers<void>();

  constructor(id: string, key: ConversationKey, { answerId, ...opened }: HeldStoredTurn | HeldDecisions) {
    const { questionId, before, shown } = opened.type === "stored" ? opened : {};
    this.id = id;
    this.key = toKeyText(key);
    this.userId = key.userId;
    this.answerId = answerId();
    this.questionId = questionId;
    this.before = before;
    this.shown = shown;
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
  interrupt(reason: Interruption): void {
    if (this.#interruption || this.log.isOver) return;
    this.#interruption = reason;
    if (this.#operation) this.#operation.abort(errors[reason]());
    // The engine starts no more turns.
    else if (reason === "closing") this.log.end({ error: errors[reason]() });
  }

  /** Stops the turn. Resolves when that is durable: from then on, a crash does not let the turn continue. */
  async stop(): Promise<void> {
    this.interrupt("stopped");
    // A turn may end before its first record, and takes no record after its end.
    const records = Promise.race([this.#recording.promise, this.#ended.promise]);
    const stored = records.then((found) => found?.saveStop().catch(() => this.#ended.promise));
    await within(storeMs, stored, {
      onLate: () => {
        throw busy("The turn was stopped, but storage cannot be written", 1);
      },
    });
    if (this.#interruption === "closing") throw shuttingDown();
  }

  /** Ends the waits for records. The turn is over, or continues at the next start. */
  end(): void {
    this.#ended.resolve();
  }

  /** Reads the answer from its beginning, as chunks of a chat, for other processes. */
  async *follow(signal: AbortSignal): AsyncGenerator<JsonText> {
    for await (const chunk of toChat(this.log.read(signal, { isReader: false }), this.before))
      yield JSON.stringify(chunk);
  }

  /** Reads the answer from its beginning. `onLeave` is called when the reader disconnects or is done. */
  read(signal: AbortSignal, onLeave: () => void): AsyncGenerator<StreamPart> {
    this.isAwaited = false;
    return this.log.read(signal, { onLeave });
  }
}

const errors: Record<Interruption, () => Error> = { left: clientLeft, stopped, closing: shuttingDown };
