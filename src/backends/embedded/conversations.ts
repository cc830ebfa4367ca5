import { busy } from "../../core/error.ts";
import type {
  ConversationKey,
  Conversations,
  History,
  MessageRow,
  PageOptions,
  StoredMessage,
  StoreOptions,
  Turn,
  TurnOptions,
} from "../../engine/conversations.ts";
import type { MessageStore, Place } from "./store/message-store.ts";
import { storeFull, type Space } from "./file/space.ts";
import { unavailable } from "./file/sqlite-error.ts";
import type { Writer } from "./store/writer.ts";

/** The number of requests that may wait in one conversation. Steps of executions are bounded by `runningExecutions`. */
const maxWaiting = 32;

interface Parts {
  readonly messages: MessageStore;
  readonly writer: Writer;
  readonly space: Space;
}

/** Conversations in the file of the executions. This process is the only writer, so the order of turns is in memory. */
export class EmbeddedConversations implements Conversations {
  readonly isLocal = true;
  readonly #file: () => Parts;
  readonly #maxBytes: number;
  readonly #known: () => Promise<void> | undefined;
  /** The turns that wait, by conversation. A conversation has a list while one of its turns is open. */
  readonly #waiting = new Map<string, (() => void)[]>();
  /** The places of turns that the last process left, by the name of the turn, until they are opened or have ended. */
  readonly #kept = new Map<string, { readonly key: string; readonly taken: Promise<void> }>();

  /** `maxBytes` bounds the history of a turn. Turns wait until `known` resolves: those that the last process left are first. */
  constructor(file: () => Parts, { maxBytes, known }: { maxBytes: number; known: () => Promise<void> | undefined }) {
    this.#file = file;
    this.#maxBytes = maxBytes;
    this.#known = known;
  }

  /** Keeps the place of a turn that the last process left. */
  keep(conversation: ConversationKey, name: string): void {
    const key = toText(conversation);
    this.#kept.set(name, { key, taken: this.#take(key, new AbortController().signal, Infinity) });
  }
  /** Gives up the place of a turn that has ended, if it was never opened. */
  giveUp(name: string): void {
    const kept = this.#kept.get(name);
    this.#kept.delete(name);
    void kept?.taken.then(() => this.#pass(kept.key));
  }

  async read(key: ConversationKey, options: PageOptions): Promise<readonly MessageRow[]> {
    return this.#file().messages.page(toText(key), options);
  }

  async open(conversation: ConversationKey, { name, isNew = name === undefined, signal }: TurnOptions): Promise<Turn> {
    // A step of an execution has begun already.
    if (isNew && this.#file().space.isFull) throw storeFull("the call was not started");
    const key = toText(conversation);
    const known = this.#known();
    if (known) await known;
    const kept = name === undefined ? undefined : this.#kept.get(name);
    if (kept) this.#kept.delete(name!);
    await (kept?.taken ?? this.#take(key, signal, isNew ? maxWaiting : Infinity));
    const place = (until: string | undefined): Place => ({ key, turn: name, until });
    let open = true;
    let stored = Promise.resolve();
    const close = async (): Promise<void> => {
      if (!open) return;
      open = false;
      await stored.catch(() => {}); // the next turn must see it
      this.#pass(key);
    };
    if (signal.aborted) void close(); // aborted while the turn before it closed
    signal.throwIfAborted();
    return {
      history: (until, admit): Promise<History> => {
        return this.#file().messages.history(place(until), this.#maxBytes, admit);
      },
      store: (messages, until, options) => (stored = this.#store(place(until), messages, options)),
      close: () => void close(),
    };
  }

  /** Waits until the turns before this one have ended. */
  #take(key: string, signal: AbortSignal, most: number): Promise<void> {
    signal.throwIfAborted();
    const line = this.#waiting.get(key);
    if (!line) this.#waiting.set(key, []);
    if (!line) return Promise.resolve();
    if (line.length >= most) {
      throw busy("Too many turns are queued in this conversation", 5);
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

  #store(
    place: Place,
    messages: readonly StoredMessage[],
    { isBeginning = place.turn === undefined }: StoreOptions = {},
  ): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const file = this.#file();
    file.writer.write({
      work: () => file.messages.replace(place, messages),
      done: () => resolve(),
      fail: reject,
      stalled: (cause) => {
        if (!isBeginning) return false; // a step waits for the store, like its own result
        reject(unavailable("Storage cannot be written: this turn was not stored", cause));
        return true;
      },
    });
    return promise;
  }
}

const toText = ({ agentId, userId, conversationId }: ConversationKey): string =>
  JSON.stringify([agentId, userId ?? null, conversationId]);
