import { isLineFull } from "../../../engine/rules/turn-line.ts";
import type { LineTurn, TurnOrders } from "./line-turn.ts";

/** A place in a conversation's line of turns, as it is stored. */
export interface StoredPlace {
  readonly id: string;
  /** The name of a turn that may run again. */
  readonly name?: string | undefined;
  /** The sweeps since the last sign of its replica. */
  missed: number;
  /** Resolved when the place has the turn, or is gone. */
  awakeable?: string | undefined;
  /** The number of the last store, by which a repeated call is recognised. */
  stored?: number | undefined;
  /** The running turn: a crash of its replica does not end it. */
  turn?: LineTurn | undefined;
}
export interface StoredLine {
  readonly places: StoredPlace[];
  /** The invocation of the next sweep. */
  sweep?: string | undefined;
}

/** The changes of one replica, applied in this order. */
export interface SyncInput {
  readonly leave: readonly string[];
  /** Places with a running turn, for Restate to continue. */
  readonly handOver?: readonly string[] | undefined;
  readonly enter: readonly NewPlace[];
  /** The other places of the replica, which it still needs. */
  readonly keep: readonly string[];
}
interface NewPlace {
  readonly id: string;
  readonly name?: string | undefined;
  /** True if it is refused when too many wait. @default true without a name */
  readonly isNew?: boolean | undefined;
  /** An earlier call had the same place, and its answer was not received. */
  readonly isRetry?: boolean | undefined;
}
/** The line as a replica is told of it. */
export interface LineNews {
  /** The place that has the turn. */
  readonly head?: string | undefined;
  /** Places that are not in the line any more. */
  readonly gone?: readonly string[] | undefined;
  /** New places that were refused, because too many wait. */
  readonly refused?: readonly string[] | undefined;
  /** Places that were dropped together with their conversation. */
  readonly deleted?: readonly string[] | undefined;
}

/** The time between two sweeps. */
export const sweepMs = 3_000;
/**
 * The sweeps in a row without a sign of its replica after which a place is dropped: 6 to 9 s after the last sign. With the calls
 * beside it, a replica that dies keeps a conversation for at most 12 s.
 */
const maxMissed = 3;

/**
 * The line of turns in one conversation.
 *
 * C1. The first place has the turn. Only that place may store messages.
 * C2. A place that is dropped never comes back, so its id is the fence against a stopped replica that continues.
 * C3. Time is counted in sweeps, and no clock is read: while Restate is down, no place expires.
 * C4. A place with a running turn is not dropped: Restate runs the turn from then on, in a place with another id. It stays
 *     until the end of the turn.
 */
export class Line {
  readonly #stored: StoredLine;
  readonly #resolve: ResolveNews;
  readonly #newId: () => string;
  /** Since the line was read: the places that left with a turn, and the places with a turn for Restate. */
  readonly ended: StoredPlace[] = [];
  readonly handedOver: StoredPlace[] = [];

  constructor(stored: StoredLine | null, resolve: ResolveNews, newId: () => string) {
    this.#stored = stored ?? { places: [] };
    this.#resolve = resolve;
    this.#newId = newId;
  }

  get head(): StoredPlace | undefined {
    return this.#stored.places[0];
  }

  get running(): StoredPlace | undefined {
    return this.head?.turn && this.head;
  }

  sync({ leave, handOver = [], enter, keep }: SyncInput): LineNews {
    this.leave(leave);
    for (const place of this.#stored.places) if (handOver.includes(place.id)) this.#handOver(place);
    this.leave(handOver); // those whose turn has not begun
    const entered = enter.map((place) => ({ id: place.id, result: this.#enter(place) }));
    for (const place of this.#stored.places) if (keep.includes(place.id)) place.missed = 0;
    const withResult = (wanted: string): string[] =>
      entered.filter(({ result }) => result === wanted).map(({ id }) => id);
    const gone = [...withResult("gone"), ...keep.filter((id) => !this.#find(id))];
    return { head: this.head?.id, gone, refused: withResult("refused") };
  }

  leave(ids: readonly string[]): void {
    this.#drop(({ id }) => ids.includes(id));
  }

  #enter({ id, name, isNew = name === undefined, isRetry }: NewPlace): "entered" | "refused" | "gone" {
    const { places } = this.#stored;
    const known = this.#find(id);
    if (known) known.missed = 0;
    if (known) return "entered";
    const isSame = (one: StoredPlace): boolean => name !== undefined && one.name === name;
    // The place was dropped for a later run of the same turn, which must not be dropped for the earlier one.
    if (isRetry && places.some(isSame)) return "gone";
    this.#drop(isSame);
    if (isNew && isLineFull(places.length)) return "refused";
    places.push({ id, name, missed: 0 });
    return "entered";
  }

  /** Keeps an awakeable until the place has the turn, or is gone. */
  watch(id: string, awakeable: string): void {
    const place = this.#find(id);
    if (!place) return this.#resolve(awakeable, { gone: [id] });
    if (place.awakeable !== undefined) this.#resolve(place.awakeable, {});
    place.awakeable = awakeable;
  }

  /** Keeps an awakeable until there is something to tell the runner of a turn. */
  watchOrders(id: string, orders: NonNullable<LineTurn["orders"]>): void {
    const turn = this.#find(id)?.turn;
    if (!turn) return this.#resolve(orders.awakeable, { isOver: true });
    this.#tell(turn, {});
    turn.orders = orders;
  }

  /** Drops the places of replicas without a sign for too long. A replaced sweep drops nothing. */
  sweep(invocation: string): void {
    if (this.#stored.sweep !== invocation) return;
    this.#stored.sweep = undefined;
    const local = this.#stored.places.filter(({ turn }) => !turn?.isHandedOver);
    const lost = new Set(local.filter((place) => ++place.missed >= maxMissed));
    for (const place of lost) {
      if (!place.turn) continue;
      lost.delete(place);
      place.turn.crashes++;
      this.#handOver(place);
    }
    this.#drop((place) => lost.has(place));
  }

  /** Lets Restate run a turn. The replica that began it cannot store anything more. */
  #handOver(place: StoredPlace): void {
    const { turn } = place;
    if (!turn) return;
    this.#tell(turn, { isOver: true });
    const next: StoredPlace = { id: this.#newId(), name: place.name, missed: 0, turn: { ...turn, isHandedOver: true } };
    this.#stored.places.splice(this.#stored.places.indexOf(place), 1, next);
    this.handedOver.push(next);
  }

  #tell(turn: LineTurn, { isStopped, isHeard, isOver }: TurnOrders): void {
    if (turn.orders) this.#resolve(turn.orders.awakeable, { isStopped, isHeard, isOver });
    turn.orders = undefined;
  }

  /** Tells the first place that it has the turn. Returns the line to be stored, whose sweep may be missing. */
  settle(): StoredLine {
    const { head } = this;
    if (head?.awakeable !== undefined) this.#resolve(head.awakeable, { head: head.id });
    if (head) head.awakeable = undefined;
    const { turn } = head ?? {};
    if (turn?.isStopped || (turn?.isHeard && turn.orders?.isPublishing === false)) this.#tell(turn, turn);
    return this.#stored;
  }

  /** True if a place could be lost. */
  get needsSweep(): boolean {
    return this.#stored.places.some(({ turn }) => !turn?.isHandedOver);
  }

  #find(id: string): StoredPlace | undefined {
    return this.#stored.places.find((place) => place.id === id);
  }

  #drop(isDropped: (place: StoredPlace) => boolean): void {
    const { places } = this.#stored;
    for (const place of places.filter(isDropped)) {
      places.splice(places.indexOf(place), 1);
      if (place.awakeable !== undefined) this.#resolve(place.awakeable, { gone: [place.id] });
      if (place.turn) this.#tell(place.turn, { isOver: true });
      if (place.turn) this.ended.push(place);
    }
  }
}

type ResolveNews = (awakeable: string, news: LineNews | TurnOrders) => void;
