import type { Clock } from "../../../core/clock.ts";
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
} from "../../../engine/contract/conversations.ts";
import {
  deletedConversation,
  invalidCursor,
  toKeyText,
  toOwnerText,
  type ConversationFilter,
  type ConversationPage,
  type Renaming,
  type StoredConversation,
} from "../../../engine/stored/stored-conversation.ts";
import { toCallNumber, type CallFilter, type CallPage, type FoundCall } from "../../../engine/stored/pending-calls.ts";
import { toDay } from "../../../engine/contract/usage.ts";
import type { ConversationRow } from "../store/tables/conversation-table.ts";
import type { MessagePlace } from "../store/message-store.ts";
import type { Store } from "../store/store.ts";
import { storeFull, type Space } from "../file/space.ts";
import type { Writer } from "../store/writer.ts";
import { TurnLines } from "./turn-line.ts";

export interface ConversationParts {
  readonly store: Store;
  readonly writer: Writer;
  readonly space: Space;
  /** Ends a turn that is not in the file any more. */
  readonly dropTurn: (id: string) => void;
  /** Hands the usage that waits to the writer. */
  readonly flushUsage: () => void;
}
interface Options {
  /** Max bytes of a turn's history. */
  readonly maxBytes: number;
  readonly clock: Clock;
  /** Turns wait until it resolves: those that the last process left are first. */
  readonly known: () => Promise<void> | undefined;
  /** Resolves when no turn that the last process left is being loaded. */
  readonly loaded: () => Promise<void>;
}

/** A turn that has its place in the conversation. */
interface Holder {
  readonly name: string | undefined;
  readonly lost: AbortController;
}

/** Conversations in the file of the executions. This process is the only writer, so the order of turns is in memory. */
export class EmbeddedConversations implements Conversations {
  readonly #file: () => ConversationParts;
  readonly #options: Options;
  readonly #lines = new TurnLines();
  readonly #holders = new Map<string, Holder>();
  /** The places of turns that the last process left, by the name of the turn, until they are opened or ended. */
  readonly #kept = new Map<string, { readonly key: string; readonly taken: Promise<void> }>();

  constructor(file: () => ConversationParts, options: Options) {
    this.#file = file;
    this.#options = options;
  }

  /** Reserves the place of a turn that the previous process did not finish. */
  keep(conversation: ConversationKey, name: string): void {
    const key = toKeyText(conversation);
    this.#kept.set(name, { key, taken: this.#lines.take(key, new AbortController().signal, false) });
  }
  /** Gives up the place of a turn that ended, if it was never opened. */
  giveUp(name: string): void {
    const kept = this.#kept.get(name);
    this.#kept.delete(name);
    kept?.taken.then(
      () => this.#lines.pass(kept.key),
      () => {}, // refused: it has no place
    );
  }

  /** True if a turn of a conversation runs or waits. */
  isBusy(key: string): boolean {
    return this.#lines.has(key);
  }

  async read(key: ConversationKey, options: PageOptions): Promise<readonly MessageRow[]> {
    return this.#file().store.messages.page(toKeyText(key), options);
  }

  async find(key: ConversationKey): Promise<StoredConversation | undefined> {
    const row = this.#file().store.conversations.find(toKeyText(key));
    return row && this.#toStored(row);
  }

  async list({ limit, after, ...owner }: ConversationFilter): Promise<ConversationPage> {
    if (after !== undefined && !/^\d{1,15}$/.test(after)) throw invalidCursor();
    const before = after === undefined ? Number.MAX_SAFE_INTEGER : Number(after);
    const rows = this.#file().store.conversations.list(toOwnerText(owner), before, limit + 1);
    return {
      conversations: rows.slice(0, limit).map((row) => this.#toStored(row)),
      hasMore: rows.length > limit,
    };
  }

  #toStored({ key, ...row }: ConversationRow): StoredConversation {
    return { ...row, isRunning: this.isBusy(key) };
  }

  rename(key: ConversationKey, renaming: Renaming): Promise<boolean> {
    const { store, writer } = this.#file();
    return writer.request(() => store.conversations.rename(toKeyText(key), renaming), "the title was not changed");
  }

  async remove(conversation: ConversationKey): Promise<boolean> {
    const key = toKeyText(conversation);
    await this.#options.known();
    await this.#options.loaded();
    const { store, writer, dropTurn, flushUsage } = this.#file();
    const kept = [...this.#kept].flatMap(([name, one]) => (one.key === key ? [name] : []));
    // From here to the first write nothing is awaited: no turn begins in between.
    const holder = this.#holders.get(key);
    const place = this.#lines.clear(key, deletedConversation());
    holder?.lost.abort(deletedConversation());
    const names = holder?.name === undefined ? kept : [...kept, holder.name];
    flushUsage();
    const removed = removeConversation({
      store,
      key,
      today: toDay(this.#options.clock.now()),
      turns: names,
      dropTurn,
      write: (work, done) => writer.request(work, "the conversation may not be deleted", done),
    });
    // The next turn begins when this one has left, and finds nothing.
    void Promise.all([place, removed.catch(() => {})]).then(() => this.#lines.pass(key));
    return removed;
  }

  async findCall(id: string): Promise<FoundCall | undefined> {
    return this.#file().store.messages.calls.find(id);
  }

  async listCalls({ owner, limit, after }: CallFilter): Promise<CallPage> {
    const calls = this.#file().store.messages.calls.list(owner, toCallNumber(after), limit + 1);
    return { calls: calls.slice(0, limit), hasMore: calls.length > limit };
  }

  async executionCalls(after: string | undefined, limit: number): Promise<CallPage> {
    const calls = this.#file().store.messages.calls.listExecutions(toCallNumber(after), limit + 1);
    return { calls: calls.slice(0, limit), hasMore: calls.length > limit };
  }

  async open(conversation: ConversationKey, { name, isNew = name === undefined, signal }: TurnOptions): Promise<Turn> {
    // A step of an execution is running already.
    if (isNew && this.#file().space.isFull) throw storeFull("the call was not started");
    const key = toKeyText(conversation);
    const known = this.#options.known();
    if (known) await known;
    const kept = name === undefined ? undefined : this.#kept.get(name);
    if (kept) this.#kept.delete(name!);
    await (kept?.taken ?? this.#lines.take(key, signal, isNew));
    const place = (until: string | undefined): MessagePlace => ({ key, turn: name, until });
    const holder: Holder = { name, lost: new AbortController() };
    this.#holders.set(key, holder);
    let open = true;
    let stored = Promise.resolve();
    const close = async (): Promise<void> => {
      if (!open) return;
      open = false;
      await stored.catch(() => {}); // the next turn must see it
      this.#holders.delete(key);
      this.#lines.pass(key);
    };
    if (signal.aborted) void close(); // aborted while the turn before it closed
    signal.throwIfAborted();
    return {
      signal: holder.lost.signal,
      history: (until, admit): Promise<History> => {
        return this.#file().store.messages.history(place(until), this.#options.maxBytes, admit);
      },
      calls: async (ids) => {
        const { calls } = this.#file().store.messages;
        return ids.flatMap((id) => {
          const call = calls.find(id);
          return call && toKeyText(call.key) === key ? [call] : [];
        });
      },
      store: (messages, until, options) => (stored = this.#store(holder, place(until), messages, options)),
      close: () => void close(),
    };
  }

  async #store(
    { lost }: Holder,
    place: MessagePlace,
    messages: readonly StoredMessage[],
    { isBeginning = place.turn === undefined, title = "", changed, decided, waiting }: StoreOptions = {},
  ): Promise<void> {
    lost.signal.throwIfAborted();
    const { store, writer } = this.#file();
    const facts = { title, now: this.#options.clock.now(), changed, decided, waiting };
    const work = (): void => store.messages.replace(place, messages, facts);
    // A step waits for the store, like its own result.
    await writer.request(work, isBeginning ? "this turn was not stored" : undefined);
  }
}

interface RemovalParts {
  readonly store: Store;
  readonly key: string;
  /** The UTC day. */
  readonly today: number;
  /** The names of the turns that have a place in the conversation. Those of steps are not in the file. */
  readonly turns: readonly string[];
  readonly dropTurn: (id: string) => void;
  /** Writes in one transaction. `done` is called directly after its commit. */
  readonly write: <T>(work: () => T, done?: (value: T) => void) => Promise<T>;
}

/**
 * Deletes a conversation. Returns false if there is none.
 *
 * RC1. One transaction removes its row and its turns. From then on it is not found, and no turn of it runs after a crash. Its
 *     usage stays, and belongs to no conversation.
 * RC2. Its messages are removed a few at a time: those of a long conversation would block requests. If the process dies
 *     meanwhile, the next one removes the rest (`Retention`).
 * RC3. It resolves when nothing is left.
 */
async function removeConversation(parts: RemovalParts): Promise<boolean> {
  const { store, key, today, turns, dropTurn, write } = parts;
  const { conversations } = store;
  const { number, isPurged } = await write(
    () => {
      const hidden = conversations.hide(key);
      store.usage.release(key, today);
      for (const id of turns) store.removeTurn(id);
      return { number: hidden, isPurged: hidden === undefined || conversations.purge(hidden) };
    },
    () => turns.forEach(dropTurn),
  );
  if (number === undefined) return false;
  for (let isDone = isPurged; !isDone;) isDone = await write(() => conversations.purge(number));
  return true;
}
