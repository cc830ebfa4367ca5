import { setTimeout as sleep } from "node:timers/promises";
import type {
  ConversationKey,
  Conversations,
  MessageRow,
  PageOptions,
  Turn,
  TurnOptions,
} from "../../../engine/conversations.ts";
import {
  toKeyText,
  type ConversationFilter,
  type ConversationPage,
  type Renaming,
  type StoredConversation,
} from "../../../engine/stored-conversation.ts";
import { listConversations } from "./list.ts";
import { LocalLine, type LineParts } from "./local-line.ts";
import type { PartialPage } from "./messages.ts";
import type { PageInput } from "./service.ts";
import { RestateTurn } from "./turn.ts";

export interface ConversationsParts extends LineParts {
  /** Resolves when Restate may know the services of this server. */
  readonly known: Promise<void>;
  /** The most bytes of a history. */
  readonly maxBytes: number;
}

/** Conversations in Restate. The object of a conversation keeps the order of its turns, on whichever replica they run. */
export class RestateConversations implements Conversations {
  readonly isLocal = false;
  readonly #parts: ConversationsParts;
  /** The conversations in whose line this replica has a place. */
  readonly #lines = new Map<string, LocalLine>();

  constructor(parts: ConversationsParts) {
    this.#parts = parts;
  }

  async read(key: ConversationKey, options: PageOptions): Promise<readonly MessageRow[]> {
    await this.#parts.known;
    let texts: string[] = [];
    for (let before = ""; ;) {
      const { rows, texts: more } = await this.#readPart(key, { ...options, from: texts.length });
      const now = JSON.stringify(rows);
      // A turn may change the messages between two calls. Then the page is read again.
      texts = texts.length === 0 || now === before ? [...texts, ...more] : [];
      before = now;
      if (texts.length === rows.length) return rows.map((row, index) => toRow(row, texts[index]!)); // one for each row
    }
  }

  #readPart(key: ConversationKey, input: PageInput): Promise<PartialPage> {
    const { client, names } = this.#parts;
    return client.read<PartialPage>(names.conversation, toKeyText(key), "page", input);
  }

  async list(filter: ConversationFilter): Promise<ConversationPage> {
    await this.#parts.known;
    return listConversations(this.#parts.client, this.#parts.names, filter);
  }

  async find(key: ConversationKey): Promise<StoredConversation | undefined> {
    await this.#parts.known;
    const { client, names } = this.#parts;
    return (await client.read<StoredConversation | null>(names.conversation, toKeyText(key), "find")) ?? undefined;
  }

  async rename(key: ConversationKey, renaming: Renaming): Promise<boolean> {
    await this.#parts.known;
    const { client, names } = this.#parts;
    return client.write<boolean>(names.conversation, toKeyText(key), "rename", renaming);
  }

  async remove(conversation: ConversationKey): Promise<boolean> {
    await this.#parts.known;
    const { client, names } = this.#parts;
    const key = toKeyText(conversation);
    const deleted = await client.write<readonly string[] | null>(names.conversation, key, "remove", null);
    // At once: other replicas hear of it with their next sign.
    if (deleted) this.#lines.get(key)?.hear({ deleted });
    return deleted !== null;
  }

  async open(conversation: ConversationKey, { name, signal }: TurnOptions): Promise<Turn> {
    await this.#parts.known;
    signal.throwIfAborted();
    const key = toKeyText(conversation);
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

const toRow = ({ number, id, role, isOld }: PartialPage["rows"][number], text: string): MessageRow => ({
  number,
  id: id ?? undefined,
  role,
  ...(isOld ? { models: text } : { ui: text }),
});
