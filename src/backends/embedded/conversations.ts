import { busy } from "../../core/error.ts";
import type {
  ConversationKey,
  Conversations,
  History,
  StoredMessage,
  Turn,
  TurnOptions,
} from "../../engine/conversations.ts";
import type { MessageStore, Place } from "./message-store.ts";
import { unavailable } from "./sqlite-error.ts";
import type { Writer } from "./writer.ts";

/** How many requests may wait for their turn in one conversation. Steps of executions have bounds of their own. */
const maxWaiting = 32;

/** Conversations in the same file. This process is its only writer, so it knows whose turn it is. */
export class EmbeddedConversations implements Conversations {
  readonly #file: () => { messages: MessageStore; writer: Writer };
  /** Those who wait, by conversation; there is a list while somebody has the turn. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(file: () => { messages: MessageStore; writer: Writer }) {
    this.#file = file;
  }

  async open({ agentId, userId, conversationId }: ConversationKey, { name, signal }: TurnOptions): Promise<Turn> {
    const key = JSON.stringify([agentId, userId ?? null, conversationId]);
    await this.#take(key, signal, name === undefined ? maxWaiting : Infinity);
    const place = (until: string | undefined): Place => ({ key, turn: name, until });
    let open = true;
    let stored = Promise.resolve();
    const close = async (): Promise<void> => {
      if (!open) return;
      open = false;
      await stored.catch(() => {}); // whoever comes next must see it
      this.#pass(key);
    };
    if (signal.aborted) void close(); // by the very event that gave it the turn
    signal.throwIfAborted();
    return {
      history: async (until): Promise<History> => this.#file().messages.history(place(until)),
      store: (messages, until) => (stored = this.#store(place(until), messages)),
      close: () => void close(),
    };
  }

  /** Waits for the turn. */
  #take(key: string, signal: AbortSignal, most: number): Promise<void> {
    signal.throwIfAborted();
    const line = this.#waiting.get(key);
    if (!line) this.#waiting.set(key, []);
    if (!line) return Promise.resolve();
    if (line.length >= most) {
      throw busy("Too many turns wait in this conversation", 5);
    }
    return new Promise((resolve, reject) => {
      const next = (): void => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = (): void => {
        line.splice(line.indexOf(next), 1);
        reject(signal.reason as Error);
      };
      line.push(next);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  #pass(key: string): void {
    const next = this.#waiting.get(key)?.shift();
    if (next) next();
    else this.#waiting.delete(key);
  }

  #store(place: Place, messages: readonly StoredMessage[]): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const file = this.#file();
    file.writer.write({
      work: () => file.messages.replace(place, messages),
      done: () => resolve(),
      fail: reject,
      onFault: (cause) => {
        if (place.turn !== undefined) return false; // a step waits, as its record will
        reject(unavailable("Storage cannot be written: this turn was not stored", cause));
        return true;
      },
    });
    return promise;
  }
}
