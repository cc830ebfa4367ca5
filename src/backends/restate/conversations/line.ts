/** A place in the line of turns of one conversation, as the conversation's object stores it. */
interface StoredPlace {
  readonly id: string;
  /** The name of a turn that may run again. */
  readonly name?: string | undefined;
  /** The sweeps since its replica was last heard of. */
  missed: number;
  /** Resolved when the place has the turn, or is gone. */
  awakeable?: string | undefined;
  /** The number of the last store, by which a repeated call is recognised. */
  stored?: number | undefined;
}
export interface StoredLine {
  readonly places: StoredPlace[];
  /** The invocation of the next sweep. */
  sweep?: string | undefined;
}

/** The changes of one replica, applied in this order. */
export interface SyncInput {
  readonly leave: readonly string[];
  readonly enter: readonly NewPlace[];
  /** The other places of the replica, which it still needs. */
  readonly keep: readonly string[];
}
interface NewPlace {
  readonly id: string;
  readonly name?: string | undefined;
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

/** The number of requests that may wait in one conversation. Steps of executions are bounded by `runningExecutions`. */
export const maxWaiting = 32;
/** The time between two sweeps. */
export const sweepMs = 3_000;
/**
 * The sweeps in a row without a sign of its replica after which a place is dropped: 6 to 9 s after the last sign. With the calls
 * beside it, a replica that dies keeps a conversation for at most 12 s.
 */
const maxMissed = 3;

/**
 * The line of turns of one conversation.
 *
 * L1. The first place has the turn. Only that place may store messages.
 * L2. A place that is dropped never comes back, so its id is the fence against a replica that was stopped and continues.
 * L3. Time is counted in sweeps, and no clock is read: while Restate is down, no place expires.
 */
export class Line {
  readonly #stored: StoredLine;
  readonly #resolve: (awakeable: string, news: LineNews) => void;

  constructor(stored: StoredLine | null, resolve: (awakeable: string, news: LineNews) => void) {
    this.#stored = stored ?? { places: [] };
    this.#resolve = resolve;
  }

  get head(): StoredPlace | undefined {
    return this.#stored.places[0];
  }

  sync({ leave, enter, keep }: SyncInput): LineNews {
    this.#drop(({ id }) => leave.includes(id));
    const entered = enter.map((place) => ({ id: place.id, result: this.#enter(place) }));
    for (const place of this.#stored.places) if (keep.includes(place.id)) place.missed = 0;
    const withResult = (wanted: string): string[] =>
      entered.filter(({ result }) => result === wanted).map(({ id }) => id);
    const gone = [...withResult("gone"), ...keep.filter((id) => !this.#find(id))];
    return { head: this.head?.id, gone, refused: withResult("refused") };
  }

  #enter({ id, name, isRetry }: NewPlace): "entered" | "refused" | "gone" {
    const { places } = this.#stored;
    const known = this.#find(id);
    if (known) known.missed = 0;
    if (known) return "entered";
    const isSame = (one: StoredPlace): boolean => name !== undefined && one.name === name;
    // The place was dropped for a later run of the same turn, which must not be dropped for the earlier one.
    if (isRetry && places.some(isSame)) return "gone";
    this.#drop(isSame);
    if (name === undefined && places.length > maxWaiting) return "refused";
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

  /** Drops the places whose replica was not heard of for too long. A sweep that was replaced by another drops nothing. */
  sweep(invocation: string): void {
    if (this.#stored.sweep !== invocation) return;
    this.#stored.sweep = undefined;
    this.#drop((place) => ++place.missed >= maxMissed);
  }

  /** Tells the first place that it has the turn. Returns the line to be stored, whose sweep may be missing. */
  settle(): StoredLine {
    const { head } = this;
    if (head?.awakeable !== undefined) this.#resolve(head.awakeable, { head: head.id });
    if (head) head.awakeable = undefined;
    return this.#stored;
  }

  #find(id: string): StoredPlace | undefined {
    return this.#stored.places.find((place) => place.id === id);
  }

  #drop(isDropped: (place: StoredPlace) => boolean): void {
    const { places } = this.#stored;
    const kept: StoredPlace[] = [];
    for (const place of places) {
      if (!isDropped(place)) kept.push(place);
      else if (place.awakeable !== undefined) this.#resolve(place.awakeable, { gone: [place.id] });
    }
    places.splice(0, places.length, ...kept);
  }
}
