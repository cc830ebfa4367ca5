import type { UIMessageChunk } from "ai";
import type { Clock } from "../../core/clock.ts";
import { toChunks } from "../messages/ui-chunks.ts";
import type { StoredUiMessage } from "../messages/ui-message.ts";
import type { LiveTurn } from "./live-turn.ts";

/** The time after its end for which an answer is still streamed, and the most answers that this is known of. */
export const replayMs = 30_000;
const maxEnded = 10_000;

/** The last answers of conversations, with the times of their ends. */
export class EndedTurns {
  readonly #clock: Clock;
  /** In the order of the ends. */
  readonly #ended = new Map<string, { readonly answerId: string; readonly at: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add({ key, answerId }: LiveTurn): void {
    this.#ended.delete(key);
    this.#ended.set(key, { answerId, at: this.#clock.monotonic() });
    for (const [old, ended] of this.#ended) {
      if (this.#ended.size <= maxEnded && !this.#isOld(ended)) break;
      this.#ended.delete(old);
    }
  }

  /** The answer of a turn that has just ended, for a client that does not have it: `after` is its last message. */
  async find(
    key: string,
    after: string | undefined,
    readLast: () => Promise<StoredUiMessage | undefined>,
  ): Promise<StoredUiMessage | undefined> {
    const ended = this.#ended.get(key);
    if (!ended || after === undefined || after === ended.answerId || this.#isOld(ended)) return undefined;
    const message = await readLast();
    return message?.id === ended.answerId ? message : undefined;
  }

  #isOld({ at }: { readonly at: number }): boolean {
    return this.#clock.monotonic() - at > replayMs;
  }
}

export async function* toStoredChat({ id, parts }: StoredUiMessage): AsyncGenerator<UIMessageChunk> {
  yield { type: "start", messageId: id };
  yield* toChunks(parts);
  yield { type: "finish" };
}
