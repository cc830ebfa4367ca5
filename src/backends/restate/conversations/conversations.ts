import { setTimeout as sleep } from "node:timers/promises";
import type {
  ConversationKey,
  Conversations,
  MessageRow,
  PageOptions,
  Turn,
  TurnOptions,
} from "../../../engine/conversations.ts";
import { LocalLine, type LineParts } from "./local-line.ts";
import { RestateTurn } from "./turn.ts";

export interface ConversationsParts extends LineParts {
  /** Resolves when Restate may know the services of this server. */
  readonly known: Promise<void>;
}

/** Conversations in Restate. The object of a conversation keeps the order of its turns, on whichever replica they run. */
export class RestateConversations implements Conversations {
  readonly #parts: ConversationsParts;
  /** The conversations in whose line this replica has a place. */
  readonly #lines = new Map<string, LocalLine>();

  constructor(parts: ConversationsParts) {
    this.#parts = parts;
  }

  async read(key: ConversationKey, options: PageOptions): Promise<readonly MessageRow[]> {
    const { client, names, known } = this.#parts;
    await known;
    return client.read<MessageRow[]>(names.conversation, toText(key), "page", options);
  }

  async open(conversation: ConversationKey, { name, signal }: TurnOptions): Promise<Turn> {
    await this.#parts.known;
    signal.throwIfAborted();
    const key = toText(conversation);
    const place = this.#lineOf(key).add(name);
    const leave = (): void => place.leave(signal.reason);
    signal.addEventListener("abort", leave, { once: true });
    try {
      await place.granted;
    } finally {
      signal.removeEventListener("abort", leave);
    }
    signal.throwIfAborted(); // aborted as the turn was granted
    return new RestateTurn({ ...this.#parts, key, place, stop: signal });
  }

  #lineOf(key: string): LocalLine {
    const known = this.#lines.get(key);
    if (known) return known;
    const line = new LocalLine(key, this.#parts, () => this.#lines.delete(key));
    this.#lines.set(key, line);
    return line;
  }

  /** Resolves when every turn was given back, or cannot be for now, or after a time. */
  async idle(limitMs: number): Promise<void> {
    const { client } = this.#parts;
    const until = performance.now() + limitMs;
    while (this.#lines.size > 0 && client.isReachable && performance.now() < until) await sleep(10);
  }
}

const toText = ({ agentId, userId, conversationId }: ConversationKey): string =>
  JSON.stringify([agentId, userId ?? null, conversationId]);
