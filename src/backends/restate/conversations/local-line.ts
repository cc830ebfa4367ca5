import { setTimeout as sleep } from "node:timers/promises";
import { busy, type ServeError } from "../../../core/error.ts";
import { newId } from "../../../core/id.ts";
import { deletedConversation } from "../../../engine/stored-conversation.ts";
import type { ServiceNames } from "../calls.ts";
import type { RestateClient } from "../client/client.ts";
import { maxWaiting, type LineNews, type SyncInput } from "./line.ts";

export interface LineParts {
  readonly client: RestateClient;
  readonly names: ServiceNames;
  /** Aborted when the server is closed, and all calls are over. */
  readonly closed: AbortSignal;
}

/** A place of this replica in the line of a conversation. */
export interface LocalPlace {
  readonly id: string;
  readonly name: string | undefined;
  /** Resolves when the place has the turn. */
  readonly granted: Promise<void>;
  /** Aborted when the place has lost its turn. */
  readonly lost: AbortSignal;
  /** Leaves the line. If it has no turn yet, `granted` rejects with the reason. */
  leave(reason?: unknown): void;
}

/** The time between two signs of this replica. A place is dropped 6 s after the last one at the earliest. */
const renewMs = 2_000;
const retryMs = 500;
/** The time for which answers and places are kept while Restate cannot be reached: a restart of its server takes less. */
export const outageMs = 20_000;
/** The calls in which a turn is given back. After that the sweep drops its place. */
const maxLeaveTries = 20;
/** The time after which a wait for the turn is sent again. */
const watchMs = 60_000;

/**
 * The places of this replica in the line of one conversation, in their order.
 *
 * One call at a time syncs them with the conversation's object: it has the places that enter and leave, and renews the others.
 */
export class LocalLine {
  readonly #key: string;
  readonly #parts: LineParts;
  readonly #places = new Map<string, Member>();
  /** The places that leave, with the calls that may still fail. */
  readonly #leaving = new Map<string, number>();
  readonly #onIdle: () => void;
  #isSyncing = false;
  #isDue = false;
  #isWatching = false;
  /** The time of the first call of those that failed in a row. */
  #failingSince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(key: string, parts: LineParts, onIdle: () => void) {
    this.#key = key;
    this.#parts = parts;
    this.#onIdle = onIdle;
  }

  /** Adds a place at the end of the line. */
  add(name: string | undefined): LocalPlace {
    if (name === undefined && this.#places.size > maxWaiting) throw tooMany();
    const place = new Member(name, (reason) => this.#leave(place, reason));
    this.#places.set(place.id, place);
    void this.#sync();
    return place;
  }

  #leave(place: Member, reason: unknown): void {
    if (!this.#places.delete(place.id)) return;
    place.end(reason);
    if (!place.isSent) return;
    this.#leaving.set(place.id, maxLeaveTries);
    void this.#sync();
  }

  get #isEmpty(): boolean {
    return this.#places.size + this.#leaving.size === 0;
  }

  async #sync(): Promise<void> {
    this.#isDue = true;
    if (this.#isSyncing) return;
    this.#isSyncing = true;
    clearTimeout(this.#timer);
    let isDone = true;
    while (this.#isDue && !this.#isEmpty) {
      this.#isDue = false;
      isDone = await this.#send();
    }
    this.#isSyncing = false;
    if (this.#isEmpty) return this.#onIdle();
    this.#timer = setTimeout(() => void this.#sync(), isDone ? renewMs : retryMs).unref();
  }

  /** Sends what has changed. Returns whether it was received. */
  async #send(): Promise<boolean> {
    const { client, names } = this.#parts;
    const places = [...this.#places.values()];
    const entering = places.filter(({ isIn }) => !isIn);
    const leaving = [...this.#leaving.keys()];
    const input: SyncInput = {
      leave: leaving,
      enter: entering.map(({ id, name, isSent }) => ({ id, name, isRetry: isSent })),
      keep: places.filter(({ isIn }) => isIn).map(({ id }) => id),
    };
    for (const place of entering) place.isSent = true;
    // A call that only renews must not wait for one ingress that hangs until the place is dropped.
    const limitMs = entering.length > 0 ? undefined : renewMs;
    try {
      const news = await client.write<LineNews>(names.conversation, this.#key, "sync", input, limitMs);
      this.#failingSince = undefined;
      for (const place of entering) place.isIn = true;
      for (const id of leaving) this.#leaving.delete(id);
      this.hear(news);
      return true;
    } catch (error) {
      this.#countTries(leaving);
      this.#failingSince ??= performance.now();
      const isOver = performance.now() - this.#failingSince > outageMs;
      const waiting = [...this.#places.values()].filter(({ isGranted }) => !isGranted);
      for (const place of isOver ? waiting : entering) this.#giveUp(place, error);
      return false;
    }
  }

  #countTries(leaving: readonly string[]): void {
    for (const id of leaving) {
      const left = this.#leaving.get(id)! - 1;
      if (left > 0) this.#leaving.set(id, left);
      else this.#leaving.delete(id);
    }
  }

  /** Refuses a request that has no turn yet. A step of an execution tries again. */
  #giveUp(place: Member, error: unknown): void {
    if (place.name !== undefined || !this.#places.delete(place.id)) return;
    place.end(error);
    this.#leaving.set(place.id, 1); // the call may have been received
  }

  /** Takes note of a change of the line. */
  hear({ head, gone = [], refused = [], deleted = [] }: LineNews): void {
    for (const id of deleted) this.#remove(id, deletedConversation());
    for (const id of refused) this.#remove(id, tooMany());
    for (const id of gone) this.#remove(id, lostTurn());
    if (head !== undefined) this.#places.get(head)?.grant();
    void this.#watch();
  }

  #remove(id: string, error: ServeError): void {
    const place = this.#places.get(id);
    this.#places.delete(id);
    place?.end(error);
    place?.lose(error);
  }

  /** Waits for the turn. Places of one replica get it in their order, so the wait is that of the first one. */
  async #watch(): Promise<void> {
    if (this.#isWatching) return;
    this.#isWatching = true;
    const { client, names, closed } = this.#parts;
    for (let first = this.#firstWaiting(); first; first = this.#firstWaiting()) {
      const stop = AbortSignal.any([closed, AbortSignal.timeout(watchMs)]);
      const input = { key: this.#key, id: first.id };
      const news = await client.wait<LineNews>(names.wait, "turn", input, stop).catch(() => undefined);
      if (closed.aborted) break;
      if (news) this.hear(news);
      else await sleep(retryMs, undefined, { ref: false });
    }
    this.#isWatching = false;
  }

  /** None while a place here has the turn: the next one hears of it when that place leaves. */
  #firstWaiting(): Member | undefined {
    const places = [...this.#places.values()].filter(({ isIn }) => isIn);
    return places.some(({ isGranted }) => isGranted) ? undefined : places[0];
  }
}

class Member implements LocalPlace {
  readonly id: string = newId();
  readonly name: string | undefined;
  readonly leave: (reason?: unknown) => void;
  /** A call with the place was sent. */
  isSent = false;
  /** The place is in the line, as far as is known here. */
  isIn = false;
  isGranted = false;
  readonly #granted = Promise.withResolvers<void>();
  readonly #lost = new AbortController();

  constructor(name: string | undefined, leave: (reason?: unknown) => void) {
    this.name = name;
    this.leave = leave;
    this.#granted.promise.catch(() => {}); // reported to the caller, if it still waits
  }

  get granted(): Promise<void> {
    return this.#granted.promise;
  }
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  grant(): void {
    this.isGranted = true;
    this.#granted.resolve();
  }
  end(reason: unknown): void {
    this.#granted.reject(reason);
  }
  lose(error: ServeError): void {
    this.#lost.abort(error);
  }
}

const tooMany = (): ServeError => busy("Too many turns are queued in this conversation", 5);
export const lostTurn = (): ServeError =>
  busy("This turn was not stored: the server was out of reach, and the conversation has continued", 1);
