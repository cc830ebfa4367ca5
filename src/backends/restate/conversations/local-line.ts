import { busy, type ServeError } from "../../../core/error.ts";
import { newId } from "../../../core/id.ts";
import { isLineFull, lineFull } from "../../../engine/rules/turn-line.ts";
import { deletedConversation } from "../../../engine/stored/stored-conversation.ts";
import type { RestateClient } from "../client/client.ts";
import type { LineNews, SyncInput } from "./line.ts";

export interface LineParts {
  readonly client: RestateClient;
  /** Aborted when the server is closed, and all calls are over. */
  readonly closed: AbortSignal;
}

/** A place of this replica in a conversation's line. */
export abstract class LocalPlace {
  readonly id: string;
  readonly name: string | undefined;
  /** True for a request, which can be refused. False for a step and for a running turn. */
  isNew: boolean;
  readonly #left = Promise.withResolvers<void>();
  /** Resolves when the conversation's object knows that the place was left, or does not know of it. */
  readonly left: Promise<void> = this.#left.promise;
  readonly #lost = new AbortController();
  /** Aborted when the place has lost its turn. */
  readonly lost: AbortSignal = this.#lost.signal;

  constructor(id: string, name: string | undefined, isNew: boolean) {
    this.id = id;
    this.name = name;
    this.isNew = isNew;
  }

  abstract leave(): void;
  /** Leaves the line, and lets Restate continue the turn. */
  handOver(): void {
    this.forget();
  }
  /** The last store has ended the turn. */
  ended(_news: LineNews): void {
    this.forget();
  }
  /** The conversation was deleted, and the place with it. */
  drop(error: ServeError): void {
    this.forget();
    this.lose(error);
  }
  /** The place is not in the line any more, as far as can be known here. */
  forget(): void {
    this.#left.resolve();
  }
  lose(error: ServeError): void {
    this.#lost.abort(error);
  }
}

/** The time between two signs of this replica. A place is dropped 6 s after the last one at the earliest. */
const renewMs = 2_000;
const retryMs = 500;
/** The time for which answers and places are kept while Restate cannot be reached: a restart of its server takes less. */
export const outageMs = 20_000;
/** The calls in which a turn is given back. After that the sweep drops its place. */
const maxLeaveTries = 20;

/**
 * The places of this replica in a conversation's line, in their order.
 *
 * One call at a time syncs them with the conversation's object: it has the places that enter and leave, and renews the others.
 */
export class LocalLine {
  readonly #key: string;
  readonly #parts: LineParts;
  readonly #places = new Map<string, Member>();
  readonly #leaving = new Set<Member>();
  readonly #onIdle: () => void;
  #isSyncing = false;
  #isDue = false;
  #isWatching = false;
  /** The time of the first failure in a row. */
  #failingSince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(key: string, parts: LineParts, onIdle: () => void) {
    this.#key = key;
    this.#parts = parts;
    this.#onIdle = onIdle;
  }

  /** Adds a place at the end of the line. */
  add(name: string | undefined, isNew: boolean): Member {
    if (isNew && isLineFull(this.#places.size)) throw lineFull();
    const place = new Member(this, name, isNew);
    this.#places.set(place.id, place);
    void this.#sync();
    return place;
  }

  leave(place: Member, reason: unknown, isUnfinished = false): void {
    if (!this.#places.delete(place.id)) return;
    place.end(reason);
    if (!place.isSent) return place.forget();
    place.isUnfinished = isUnfinished;
    this.#leaving.add(place);
    void this.#sync();
  }

  end(place: Member, news: LineNews): void {
    this.#places.delete(place.id);
    place.forget();
    this.apply(news);
    if (this.#isEmpty) void this.#sync();
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
    const { client } = this.#parts;
    const places = [...this.#places.values()];
    const entering = places.filter(({ isIn }) => !isIn);
    const leaving = [...this.#leaving];
    const idsOf = (isWanted: boolean): string[] =>
      leaving.filter(({ isUnfinished }) => isUnfinished === isWanted).map(({ id }) => id);
    const input: SyncInput = {
      leave: idsOf(false),
      handOver: idsOf(true),
      enter: entering.map(({ id, name, isNew, isSent }) => ({ id, name, isNew, isRetry: isSent })),
      keep: places.filter(({ isIn }) => isIn).map(({ id }) => id),
    };
    for (const place of entering) place.isSent = true;
    // A renewal must not wait for a hanging ingress until the place is dropped.
    const limitMs = entering.length > 0 ? undefined : renewMs;
    try {
      const news = await client.write<LineNews>("conversation/sync", this.#key, input, limitMs);
      this.#failingSince = undefined;
      for (const place of entering) place.isIn = true;
      for (const place of leaving) {
        this.#leaving.delete(place);
        place.forget();
      }
      this.apply(news);
      return true;
    } catch (error) {
      for (const place of leaving) {
        place.forget(); // its sweep drops it, or hands it over
        if (--place.leaveTries === 0) this.#leaving.delete(place);
      }
      this.#failingSince ??= performance.now();
      const isOver = performance.now() - this.#failingSince > outageMs;
      const waiting = [...this.#places.values()].filter(({ isGranted }) => !isGranted);
      for (const place of isOver ? waiting : entering) this.#giveUp(place, error);
      return false;
    }
  }

  /** Refuses a request that has no turn yet. A step of an execution tries again. */
  #giveUp(place: Member, error: unknown): void {
    if (!place.isNew || !this.#places.delete(place.id)) return;
    place.end(error);
    place.leaveTries = 1;
    this.#leaving.add(place); // the call may have been received
  }

  /** The line has changed. */
  apply({ head, gone = [], refused = [], deleted = [] }: LineNews): void {
    for (const id of deleted) this.remove(id, deletedConversation());
    for (const id of refused) this.remove(id, lineFull());
    for (const id of gone) this.remove(id, lostTurn());
    if (head !== undefined) this.#places.get(head)?.grant();
    void this.#watch();
  }

  remove(id: string, error: ServeError): void {
    const place = this.#places.get(id);
    this.#places.delete(id);
    place?.end(error);
    place?.forget();
    place?.lose(error);
  }

  /** Waits for the turn of the first place: places of one replica get it in their order. */
  async #watch(): Promise<void> {
    if (this.#isWatching) return;
    this.#isWatching = true;
    const { client, closed } = this.#parts;
    for (let first = this.#firstWaiting(); first; first = this.#firstWaiting()) {
      const news = await client.waitOnce("turn", { key: this.#key, id: first.id }, closed);
      if (closed.aborted) break;
      if (news) this.apply(news);
    }
    this.#isWatching = false;
  }

  /** None while a place here has the turn: the next one is told when that place leaves. */
  #firstWaiting(): Member | undefined {
    const places = [...this.#places.values()].filter(({ isIn }) => isIn);
    return places.some(({ isGranted }) => isGranted) ? undefined : places[0];
  }
}

class Member extends LocalPlace {
  /** A call with the place was sent. */
  isSent = false;
  /** The place is in the line, as far as is known here. */
  isIn = false;
  isGranted = false;
  /** It leaves with a turn that Restate is to continue. */
  isUnfinished = false;
  /** The calls that may fail before the place is left to the sweep. */
  leaveTries: number = maxLeaveTries;
  readonly #line: LocalLine;
  readonly #granted = Promise.withResolvers<void>();
  /** Resolves when the place has the turn. */
  readonly granted: Promise<void> = this.#granted.promise;

  constructor(line: LocalLine, name: string | undefined, isNew: boolean) {
    super(newId(), name, isNew);
    this.#line = line;
    this.granted.catch(() => {}); // reported to the caller, if it still waits
  }

  /** Leaves the line. If it has no turn yet, `granted` rejects with the reason. */
  leave(reason?: unknown): void {
    this.#line.leave(this, reason);
  }
  override handOver(): void {
    this.#line.leave(this, undefined, true);
  }
  override ended(news: LineNews): void {
    this.#line.end(this, news);
  }
  override drop(error: ServeError): void {
    this.#line.remove(this.id, error);
  }

  grant(): void {
    this.isGranted = true;
    this.#granted.resolve();
  }
  end(reason: unknown): void {
    this.#granted.reject(reason);
  }
}

export const lostTurn = (): ServeError =>
  busy("This turn was not stored: the server was out of reach, and the conversation has continued", 1);
