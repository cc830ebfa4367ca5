import { getHeapStatistics } from "node:v8";
import { busy } from "./error.ts";

/**
 * The heap cost of request bodies and conversations in flight.
 *
 * B1. A reservation that is alone is granted whatever its size. Beyond `max`, others are refused with 503 or wait in
 *     line.
 * B2. A reservation is returned after the end of its response, when every holder has released it.
 */
export class ByteBudget {
  readonly #max: number;
  readonly #line: Waiting[] = [];
  #used = 0;

  /** `max` is in heap bytes. 0 stands for a quarter of the heap limit. */
  constructor(max: number) {
    this.#max = max || quarterOfHeap();
  }

  /** `onEnded` registers a callback for the end of the response. It is not called for small bodies. @default no response */
  createReservation(onEnded: OnEnded = () => {}): Reservation {
    return new Reservation(this, onEnded);
  }

  /** Adds bytes to the sum. `own` is the reservation's present share. Throws a 503 if they do not fit. */
  take(bytes: number, own: number): void {
    if (!this.#fits(bytes, own)) throw busy("Too much data in flight", 1);
    this.#used += bytes;
  }

  /** Adds bytes to the sum when they fit, in the order of the line. Rejects when the signal is aborted. */
  wait(bytes: number, own: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#line.splice(this.#line.indexOf(waiting), 1);
        reject(signal.reason as Error);
        this.#admit();
      };
      const enter = (): void => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const waiting = { bytes, own, enter };
      signal.addEventListener("abort", leave, { once: true });
      this.#line.push(waiting);
      this.#admit();
    });
  }

  /** Adds bytes to the sum, whether or not they fit. */
  force(bytes: number): void {
    this.#used += bytes;
  }

  release(bytes: number): void {
    this.#used -= bytes;
    this.#admit();
  }

  #fits(bytes: number, own: number): boolean {
    return this.#used === own || this.#used + bytes <= this.#max;
  }

  #admit(): void {
    for (let first = this.#line[0]; first && this.#fits(first.bytes, first.own); first = this.#line[0]) {
      this.#line.shift();
      this.#used += first.bytes;
      first.enter();
    }
  }
}

export type OnEnded = (release: () => void) => void;
interface Waiting {
  readonly bytes: number;
  readonly own: number;
  readonly enter: () => void;
}

/** The part of a budget that one request, or one call of an agent, uses. */
export class Reservation {
  readonly #budget: ByteBudget;
  readonly #onEnded: OnEnded;
  #bytes = 0;
  #holders = 0;

  constructor(budget: ByteBudget, onEnded: OnEnded) {
    this.#budget = budget;
    this.#onEnded = onEnded;
  }

  /**
   * Raises the reservation to a body of this size or weight. Throws a 503 if the budget is used up. Small bodies do not
   * count.
   */
  raise(bodyBytes: number): void {
    const more = bodyBytes * heapPerByte - this.#bytes;
    if (bodyBytes <= smallBytes || more <= 0) return;
    this.#budget.take(more, this.#bytes);
    const isFirst = this.#bytes === 0;
    this.#bytes += more;
    if (isFirst) this.#onEnded(this.#hold());
  }

  /**
   * Adds data that is about to be loaded, until the returned function is called. If the budget is used up, it throws a 503,
   * waits for other data to be released, or adds it all the same.
   */
  async load(bytes: number, otherwise: "refuse" | "wait" | "add", signal: AbortSignal): Promise<() => void> {
    const more = bytes * heapPerByte;
    if (otherwise === "refuse") this.#budget.take(more, this.#bytes);
    else if (otherwise === "wait") await this.#budget.wait(more, this.#bytes, signal);
    else this.#budget.force(more);
    this.#bytes += more;
    return this.#hold();
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
      const bytes = this.#bytes;
      this.#bytes = 0; // a body that is read on is reserved anew
      this.#budget.release(bytes);
    };
  }
}

/** The heap cost per byte of JSON in use: its text, its value, and copies. 2 MB were measured at 8 to 10. */
export const heapPerByte = 5;
/** Smaller texts are not weighed. */
export const smallBytes = 16_384;
/** The text bytes with the heap cost of one object or array, by estimate. `{}` takes only 2 bytes of text. */
const bytesPerContainer = 10;

/**
 * The weight of a JSON text: its bytes, and an addition for objects and arrays. `[{},{},…]` costs more heap than one
 * long string.
 */
export function toWeight(text: string): number {
  if (text.length <= smallBytes) return text.length;
  let containers = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === openBrace || code === openBracket) containers++;
  }
  return text.length + containers * bytesPerContainer;
}
const openBrace = 123;
const openBracket = 91;

/** The weight per byte of unloaded values. */
export const unknownDensity = 2;

/** The default heap share for values in use: a quarter of the limit. */
export const quarterOfHeap = (): number => {
  const limit = getHeapStatistics().heap_size_limit;
  return Math.max(limit - youngBytes, limit / 2) / 4;
};

/** The young generation's share of `heap_size_limit`: `--max-old-space-size=160` sets that limit to 352 MiB. */
const youngBytes = 192 * 1_048_576;
