import { clientLeft, ServeError, shuttingDown } from "../../core/error.ts";
import type { StreamPart } from "../call/call.ts";
import type { Operation } from "../call/operation.ts";
import type { UiParts } from "../messages/ui-message.ts";
import { AnswerLog } from "./answer-log.ts";

/** The reason why a turn was ended from outside. */
type Interruption = "left" | "stopped" | "closing";

/** A turn of a conversation that runs in this process, or waits for those before it. */
export class LiveTurn {
  readonly id: string;
  /** The conversation. */
  readonly key: string;
  readonly userId: string | undefined;
  /** The id of the answer, and that of the user's message if it has one. */
  readonly answerId: string;
  readonly questionId: string | undefined;
  /** The parts of the message that the answer continues. */
  readonly before: UiParts | undefined;
  readonly log: AnswerLog = new AnswerLog();
  /** Whether it continues without a reader. */
  continues = true;
  /** Whether its first reader is about to come. */
  isAwaited = false;
  /** Whether the turns before it have ended. */
  isRunning = false;
  #operation: Operation | undefined;
  #interruption: Interruption | undefined;

  constructor(turn: Pick<LiveTurn, "id" | "key" | "userId" | "answerId" | "questionId" | "before">) {
    this.id = turn.id;
    this.key = turn.key;
    this.userId = turn.userId;
    this.answerId = turn.answerId;
    this.questionId = turn.questionId;
    this.before = turn.before;
  }

  get interruption(): Interruption | undefined {
    return this.#interruption;
  }

  /** Binds the turn to the call that runs it. */
  bind(operation: Operation): void {
    this.#operation = operation;
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

  /** Reads the answer from its beginning. `onLeave` is called when the reader is gone. */
  async *read(signal: AbortSignal, onLeave: () => void): AsyncGenerator<StreamPart> {
    const parts = this.log.read(signal);
    this.isAwaited = false;
    try {
      yield* parts;
    } finally {
      onLeave();
    }
  }
}

/** The answer to a caller that waits for a turn that was stopped. */
export const stopped = (): ServeError => new ServeError(409, "The turn was stopped");

const errors: Record<Interruption, () => Error> = {
  left: () => clientLeft(),
  stopped: () => stopped(),
  closing: () => shuttingDown(),
};
