import { setTimeout as sleep } from "node:timers/promises";
import { ServeError } from "../../../core/error.ts";
import type { AdmitHistory, History, StoredMessage, StoreOptions, Turn } from "../../../engine/conversations.ts";
import type { ServiceNames } from "../calls.ts";
import type { RestateClient } from "../client/client.ts";
import { lostTurn, outageMs, type LocalPlace } from "./local-line.ts";
import { deletedConversation } from "../../../engine/stored-conversation.ts";
import { toBatch, toNumber, type PartialHistory } from "./messages.ts";
import type { HistoryInput, ModelsInput, StoreInput } from "./service.ts";

interface TurnParts {
  readonly client: RestateClient;
  readonly names: ServiceNames;
  readonly key: string;
  readonly place: LocalPlace;
  /** The most bytes of a history. */
  readonly maxBytes: number;
  /** The signal of the call. */
  readonly stop: AbortSignal;
}

/** Restate drops the connection for a message of more than 32 MiB. */
const maxStoreBytes = 30_000_000;

/** A turn that this replica has, until it closes it or loses it. */
export class RestateTurn implements Turn {
  readonly #parts: TurnParts;
  #stores = 0;
  #stored: Promise<unknown> = Promise.resolve();

  constructor(parts: TurnParts) {
    this.#parts = parts;
  }

  get signal(): AbortSignal {
    return this.#parts.place.lost;
  }

  async history(until?: string, admit?: AdmitHistory): Promise<History> {
    const { place, maxBytes } = this.#parts;
    const { id } = place;
    const history = await this.#call<PartialHistory | null>("history", { id, until, maxBytes });
    if (!history) throw await this.#toLoss();
    const { rows, stored, found, omitted } = history;
    await admit?.(rows.reduce((sum, { bytes }) => sum + bytes, 0));
    const models = [...history.models];
    while (models.length < rows.length) {
      const numbers = toBatch(rows.slice(models.length)).map(toNumber);
      const more = await this.#call<string[] | null>("models", { id, numbers });
      if (!more) throw await this.#toLoss();
      models.push(...more);
    }
    const messages = rows.map((row, index) => ({ id: row.id ?? undefined, role: row.role, models: models[index]! }));
    return { stored, found, omitted, messages };
  }

  store(messages: readonly StoredMessage[], until?: string, { title = "" }: StoreOptions = {}): Promise<void> {
    const storing = this.#store(messages, until, title);
    this.#stored = storing.catch(() => {});
    return storing;
  }

  async #store(messages: readonly StoredMessage[], until: string | undefined, title: string): Promise<void> {
    refuseLarge(messages);
    const { id } = this.#parts.place;
    const facts = { title, now: Date.now() };
    const isStored = await this.#call<boolean>("store", { id, until, number: ++this.#stores, messages, facts });
    if (!isStored) throw await this.#toLoss();
  }

  /** The error of a turn that its place does not have any more. */
  async #toLoss(): Promise<ServeError> {
    const { client, names, key, place } = this.#parts;
    const isDeleted = await client.read<boolean>(names.conversation, key, "isDeleted", place.id).catch(() => false);
    return isDeleted ? deletedConversation() : lostTurn();
  }

  /** Calls the conversation's object, and tries again through an outage. A step of an execution is durable: it has no limit. */
  async #call<T>(method: string, input: HistoryInput | ModelsInput | StoreInput): Promise<T> {
    const { client, names, key, place, stop } = this.#parts;
    const until = performance.now() + (place.name === undefined ? outageMs : Infinity);
    for (let pauseMs = 100; ; pauseMs = Math.min(2 * pauseMs, 1_000)) {
      try {
        return await client.write<T>(names.conversation, key, method, input);
      } catch (error) {
        if (stop.aborted || performance.now() + pauseMs > until) throw error;
        if (place.lost.aborted) throw place.lost.reason;
      }
      await sleep(pauseMs);
    }
  }

  close(): void {
    // The next turn must see what is being stored.
    void this.#stored.then(() => this.#parts.place.leave());
  }
}

function refuseLarge(messages: readonly StoredMessage[]): void {
  const length = messages.reduce((sum, { models, ui }) => sum + models.length + ui.length, 0);
  if (length * 3 <= maxStoreBytes) return; // a character takes at most 3 bytes
  const bytes = Buffer.byteLength(JSON.stringify(messages));
  if (bytes > maxStoreBytes)
    throw new ServeError(413, `This turn was not stored: it has ${bytes} bytes, and Restate takes ${maxStoreBytes}`);
}
