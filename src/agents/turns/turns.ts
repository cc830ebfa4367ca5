import type { UIMessageChunk } from "ai";
import type { Clock } from "../../core/clock.ts";
import { busy, clientLeft, ServeError } from "../../core/error.ts";
import type { JsonText } from "../../core/json.ts";
import type { ConversationKey, Conversations, LastTurn, TurnStart } from "../../engine/contract/conversations.ts";
import { toKeyText } from "../../engine/stored/stored-conversation.ts";
import { type StreamPart } from "../call/answers/answer.ts";
import { toChat } from "../answers/chat.ts";
import { readMessages } from "../messages/read-messages.ts";
import { toChunks } from "../messages/ui-chunks.ts";
import type { StoredUiMessage } from "../messages/ui-message.ts";
import { LiveTurn } from "./live-turn.ts";

/** A turn that runs. Replaced messages are known only in its own process. */
export type RunningTurn = LastTurn & Partial<Pick<LiveTurn, "shown">>;

/** Max turns of one user that continue without a reader. */
const maxDetachedOfUser = 5;
/** The time after its end in which an answer is still streamed. */
const replayMs = 30_000;
/** Max ended turns with a known answer. Beyond it, the oldest is forgotten. */
const maxEnded = 10_000;

/** The turns of conversations in this process, and their readers. At most one turn of a conversation `isRunning`. */
export class Turns {
  readonly #conversations: Conversations;
  readonly #clock: Clock;
  /** Max turns of the process that continue without a reader. */
  readonly #maxDetached: number;
  readonly #live = new Map<string, LiveTurn>();
  /** The last answers of conversations, in the order of their end times. */
  readonly #ended = new Map<string, Required<Pick<LastTurn, "id" | "answerId" | "endedAt">>>();
  /** The turns without a reader that are not added yet. */
  readonly #reserved = new Set<{ readonly userId: string | undefined }>();
  #isClosing = false;

  constructor(conversations: Conversations, clock: Clock, maxDetached: number) {
    this.#conversations = conversations;
    this.#clock = clock;
    this.#maxDetached = maxDetached;
  }

  /** Reserves a place for a turn without a reader. Throws a 503 if there are too many. Returns the release. */
  reserve(userId: string | undefined): () => void {
    if (!this.#mayDetach(userId, 1)) throw busy("Too many turns run without a reader", 5);
    const reservation = { userId };
    this.#reserved.add(reservation);
    return () => this.#reserved.delete(reservation);
  }

  add(turn: LiveTurn): void {
    this.#live.set(turn.id, turn);
  }

  remove(turn: LiveTurn): void {
    turn.end();
    // After an outage of this process, another run of the same turn may be live.
    if (this.#live.get(turn.id) === turn) this.#live.delete(turn.id);
  }

  /** Removes a turn after its run. Its answer can be read for a while. */
  end(turn: LiveTurn): void {
    this.remove(turn);
    const { id, key, answerId } = turn;
    const now = this.#clock.monotonic();
    this.#ended.delete(key); // the new entry is the last one
    this.#ended.set(key, { id, answerId, endedAt: now });
    for (const [old, { endedAt }] of this.#ended) {
      if (this.#ended.size <= maxEnded && now - endedAt <= replayMs) break;
      this.#ended.delete(old);
    }
  }

  /** Reads the answer of a turn. A turn without a reader continues, unless there are too many of them. */
  read(turn: LiveTurn, signal: AbortSignal): AsyncGenerator<StreamPart> {
    return turn.read(signal, () => {
      if (turn.log.readers === 0 && !(turn.continues && this.#mayDetach(turn.userId))) turn.interrupt("left");
    });
  }

  /** Returns true if all turns without a reader may continue, and some more. */
  #mayDetach(userId: string | undefined, more = 0): boolean {
    const live = [...this.#live.values()].filter(({ log, isAwaited }) => log.readers + +isAwaited === 0 && !log.isOver);
    const detached = [...live, ...this.#reserved];
    const own = detached.filter((turn) => userId !== undefined && turn.userId === userId);
    return detached.length + more <= this.#maxDetached && own.length + more <= maxDetachedOfUser;
  }

  /** Returns the running turn of a conversation, in this process. */
  find(key: ConversationKey): LiveTurn | undefined {
    const text = toKeyText(key);
    return [...this.#live.values()].find((turn) => turn.key === text && turn.isRunning && !turn.log.isOver);
  }

  /** Returns the running turn of a conversation, in any process. */
  async findAnywhere(key: ConversationKey): Promise<RunningTurn | undefined> {
    const turn = this.find(key);
    if (turn) return turn;
    const last = await this.#conversations.elsewhere?.last(key);
    return last?.endedAt === undefined ? last : undefined;
  }

  /**
   * Reads the answer of the running turn, from its beginning. Shortly after its end, a client without it gets it from the
   * conversation: `after` is the last message of the client. Returns undefined if there is nothing to read.
   */
  async attach(
    key: ConversationKey,
    { after, signal }: { readonly after: string | undefined; readonly signal: AbortSignal },
  ): Promise<AsyncIterable<UIMessageChunk> | undefined> {
    const turn = this.find(key);
    if (turn) return toChat(this.read(turn, signal), turn.before);
    const { elsewhere } = this.#conversations;
    const last = elsewhere ? await elsewhere.last(key) : this.#ended.get(toKeyText(key));
    if (!last) return undefined;
    const { id, answerId, endedAt } = last;
    if (elsewhere && endedAt === undefined) {
      const texts = elsewhere.follow(key, id, signal);
      const { done, value } = await texts.next();
      if (!done) return parseChunks(value, texts);
      if (signal.aborted) throw clientLeft();
    }
    const now = elsewhere ? this.#clock.now() : this.#clock.monotonic();
    const isOld = endedAt !== undefined && now - endedAt > replayMs;
    if (after === undefined || after === answerId || isOld) return undefined;
    const message = await this.#readLast(key);
    return message?.id === answerId ? toStoredChat(message) : undefined;
  }

  /** Reads the last answer of a conversation, from its beginning. Undefined if it was deleted, or is not the message `id`. */
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
    return (await readMessages(this.#conversations, key, { limit: 1 })).at(-1);
  }

  /**
   * Stops the running turn, and returns the id of its answer. Rejects with 409 if the message is not of that turn. The stop is
   * durable when it resolves.
   */
  async stop(
    key: ConversationKey,
    messageId: string | undefined,
  ): Promise<{ stopped: boolean; messageId: string | null }> {
    const turn = await this.findAnywhere(key);
    refuseOther(turn, messageId);
    if (turn instanceof LiveTurn) await turn.stop();
    else if (!turn || !(await this.#conversations.elsewhere?.stop(key, turn.id))) {
      refuseOther(undefined, messageId);
      return { stopped: false, messageId: null };
    }
    return { stopped: true, messageId: turn.answerId };
  }

  /** Interrupts all turns for a shutdown. They continue at the next start. */
  close(): void {
    this.#isClosing = true;
    for (const turn of this.#live.values()) turn.interrupt("closing");
  }

  /** Returns true if a turn continues at the next start. Undefined: a turn that is not open yet. */
  isUnfinished(turn: LiveTurn | undefined): boolean {
    return turn ? turn.interruption === "closing" : this.#isClosing;
  }
}

/** Throws a 409 if a message is not of the running turn. */
function refuseOther(turn: TurnStart | undefined, messageId: string | undefined): void {
  if (messageId === undefined || messageId === turn?.answerId || messageId === turn?.questionId) return;
  throw new ServeError(409, "That turn has ended");
}

async function* parseChunks(first: JsonText, rest: AsyncGenerator<JsonText>): AsyncGenerator<UIMessageChunk> {
  yield JSON.parse(first) as UIMessageChunk; // made by the other process
  for await (const text of rest) yield JSON.parse(text) as UIMessageChunk;
}

async function* toStoredChat({ id, parts }: StoredUiMessage): AsyncGenerator<UIMessageChunk> {
  yield { type: "start", messageId: id };
  yield* toChunks(parts);
  yield { type: "finish" };
}
