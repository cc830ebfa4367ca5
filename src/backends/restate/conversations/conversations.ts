import { setTimeout as sleep } from "node:timers/promises";
import type {
  ConversationKey,
  Conversations,
  ExecutionEndListener,
  LastTurn,
  MessageRow,
  PageOptions,
  TurnOptions,
  TurnsElsewhere,
} from "../../../engine/contract/conversations.ts";
import type { CallFilter, CallPage, FoundCall } from "../../../engine/stored/pending-calls.ts";
import type { JsonText } from "../../../core/json.ts";
import {
  toKeyText,
  type ConversationFilter,
  type ConversationPage,
  type Renaming,
  type StoredConversation,
} from "../../../engine/stored/stored-conversation.ts";
import { findConversation, listCalls, listConversations, listEnded, toKey } from "./list.ts";
import { LocalLine, type LineParts } from "./local-line.ts";
import type { PartialPage } from "./messages.ts";
import type { PageInput } from "./inputs.ts";
import { followAnswer } from "./sent-answer.ts";
import { RestateTurn, type HeldPlace } from "./turn.ts";

export interface ConversationsParts extends LineParts {
  /** Max bytes of a history. */
  readonly maxBytes: number;
}

/** Conversations in Restate. The object of each one orders its turns over all replicas. */
export class RestateConversations implements Conversations {
  readonly elsewhere: TurnsElsewhere;
  readonly #parts: ConversationsParts;
  /** The conversations in whose line this replica has a place. */
  readonly #lines = new Map<string, LocalLine>();
  /** The turns of requests that have their place, by their name, until they begin. */
  readonly #opened = new Map<string, RestateTurn>();
  /** The places of turns that Restate runs on this replica, by the name of the turn. */
  readonly #held = new Map<string, HeldPlace>();

  #onExecutionEnd: ExecutionEndListener | undefined;

  constructor(parts: ConversationsParts) {
    this.#parts = parts;
    this.elsewhere = {
      last: async (key) => (await this.#read<LastTurn | null>(key, "last", null)) ?? undefined,
      stop: (key, turnId) => this.#write(key, "stop", turnId),
      follow: (key, turnId, signal) => this.#follow(key, turnId, signal),
    };
  }

  /** Takes the turn of a request that has its place, and is about to begin. */
  take(turnId: string): RestateTurn {
    const turn = this.#opened.get(turnId)!; // opened before
    this.#opened.delete(turnId);
    return turn;
  }
  /** Keeps the place of a turn that Restate runs here, for `open`. Returns the release. */
  hold(turnId: string, place: HeldPlace): () => void {
    this.#held.set(turnId, place);
    return () => void this.#held.delete(turnId);
  }

  async read(key: ConversationKey, options: PageOptions): Promise<readonly MessageRow[]> {
    let texts: string[] = [];
    for (let before = ""; ;) {
      const input: PageInput = { ...options, from: texts.length };
      const { rows, texts: more } = await this.#read<PartialPage>(key, "page", input);
      const now = JSON.stringify(rows);
      // A turn may change the messages between two calls, and within one. Then the page is read again.
      const found = more.filter((text) => text !== null);
      const isSame = (texts.length === 0 || now === before) && found.length === more.length;
      texts = isSame ? [...texts, ...found] : [];
      before = now;
      if (isSame && texts.length === rows.length) return rows.map((row, index) => toRow(row, texts[index]));
    }
  }

  #read<T>(key: ConversationKey, method: string, input: unknown): Promise<T> {
    return this.#parts.client.read<T>(`conversation/${method}`, toKeyText(key), input);
  }
  #write<T>(key: ConversationKey, method: string, input: unknown): Promise<T> {
    return this.#parts.client.write<T>(`conversation/${method}`, toKeyText(key), input);
  }

  list(filter: ConversationFilter): Promise<ConversationPage> {
    return listConversations(this.#parts.client, filter);
  }

  async find(key: ConversationKey): Promise<StoredConversation | undefined> {
    return (await this.#read<StoredConversation | null>(key, "find", null)) ?? undefined;
  }

  rename(key: ConversationKey, renaming: Renaming): Promise<boolean> {
    return this.#write<boolean>(key, "rename", renaming);
  }

  async remove(key: ConversationKey): Promise<boolean> {
    const deleted = await this.#write<readonly string[] | null>(key, "remove", null);
    // At once: other replicas are told at their next sync.
    if (deleted) this.#lines.get(toKeyText(key))?.apply({ deleted });
    return deleted !== null;
  }

  async findCall(id: string, knownKey?: ConversationKey): Promise<FoundCall | undefined> {
    const key = knownKey ?? (await findConversation(this.#parts.client, id));
    const call = key && (await this.#read<Omit<FoundCall, "key" | "cursor"> | null>(key, "call", id));
    return call ? { ...call, key, cursor: "" } : undefined;
  }

  listCalls(filter: CallFilter): Promise<CallPage> {
    return listCalls(this.#parts.client, filter);
  }

  executionCalls(after: string | undefined, limit: number): Promise<CallPage> {
    return listEnded(this.#parts.client, after, limit);
  }
  /** Without `this`: it is called as a function. */
  readonly onExecutionEnd = (listener: ExecutionEndListener): void => {
    this.#onExecutionEnd = listener;
  };
  /** Continues the answer that waits for an execution. Rejects if another replica has to. */
  async continueAnswer(executionId: string, conversation: string): Promise<void> {
    if (!this.#onExecutionEnd) throw new Error("This replica does not continue answers yet");
    await this.#onExecutionEnd(executionId, toKey(conversation));
  }

  async *#follow(key: ConversationKey, turnId: string, signal: AbortSignal): AsyncGenerator<JsonText> {
    const isRunning = await this.#write<boolean>(key, "hear", turnId);
    const stop = AbortSignal.any([signal, this.#parts.closed]);
    if (isRunning) yield* followAnswer({ ...this.#parts, turnId }, stop);
  }

  async open(
    conversation: ConversationKey,
    { name, isNew = name === undefined, signal }: TurnOptions,
  ): Promise<RestateTurn> {
    signal.throwIfAborted();
    const key = toKeyText(conversation);
    const held = name === undefined ? undefined : this.#held.get(name);
    if (held) return new RestateTurn({ ...this.#parts, key, place: held, stop: signal, run: held.run });
    const place = this.#lineOf(key).add(name, isNew);
    const leave = (): void => place.leave(signal.reason);
    signal.addEventListener("abort", leave, { once: true });
    try {
      await place.granted;
    } finally {
      signal.removeEventListener("abort", leave);
    }
    signal.throwIfAborted(); // aborted as the turn was granted
    const turn = new RestateTurn({ ...this.#parts, key, place, stop: signal, run: 1 });
    if (name === undefined || !isNew) return turn;
    this.#opened.set(name, turn);
    void place.left.then(() => this.#opened.delete(name));
    return turn;
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

const toRow = ({ number, id, role, isOld }: PartialPage["rows"][number], text = ""): MessageRow => ({
  number,
  id: id ?? undefined,
  role,
  ...(isOld ? { models: text } : { ui: text }),
});
