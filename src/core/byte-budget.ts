import { busy } from "./error.ts";
import { heapPerByte, quarterOfHeap, smallBytes } from "./heap-weight.ts";

/**
 * The bytes of request bodies in flight, weighed by what they cost in the heap.
 *
 * B1. A reservation that is alone is granted whatever its size. Others are refused with 503 if the sum passes `most`.
 * B2. A reservation is returned when its response has ended and every holder has let go.
 */
export class ByteBudget {
  readonly #most: number;
  #used = 0;

  /** `most` is in bytes of heap. 0 stands for a quarter of the heap limit of the process. */
  constructor(most: number) {
    this.#most = most || quarterOfHeap();
  }

  /** `onEnded` registers a callback for the end of the response. It is not called for small bodies. */
  createReservation(onEnded: OnEnded): Reservation {
    return new Reservation((bytes, own) => this.#take(bytes, own), onEnded);
  }

  #take(bytes: number, own: number): void {
    const isAlone = this.#used === own;
    if (bytes > 0 && !isAlone && this.#used + bytes > this.#most) throw busy("Too much data in flight", 1);
    this.#used += bytes;
  }
}

export type OnEnded = (release: () => void) => void;
/** Adds bytes to the sum. `own` is the part of the sum that the reservation has already. */
type Take = (bytes: number, own: number) => void;

/** The part of a budget that one request uses. */
export class Reservation {
  readonly #take: Take;
  readonly #onEnded: OnEnded;
  #bytes = 0;
  #holders = 0;

  constructor(take: Take, onEnded: OnEnded) {
    this.#take = take;
    this.#onEnded = onEnded;
  }

  /** Raises the reservation to that of a body of this size or weight. Throws a 503 if the budget is used up. Small ones do not count. */
  raise(bodyBytes: number): void {
    const more = bodyBytes * heapPerByte - this.#bytes;
    if (bodyBytes <= smallBytes || more <= 0) return;
    this.#take(more, this.#bytes);
    const isFirst = this.#bytes === 0;
    this.#bytes += more;
    if (isFirst) this.#onEnded(this.#hold());
  }

  /** Keeps the reservation until the returned function is called. Undefined if there is nothing to keep. */
  hold(): (() => void) | undefined {
    return this.#holders > 0 ? this.#hold() : undefined;
  }

  #hold(): () => void {
    this.#holders++;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (--this.#holders > 0) return;
      this.#take(-this.#bytes, this.#bytes);
      this.#bytes = 0; // a body that is read on is reserved anew
    };
  }
}
