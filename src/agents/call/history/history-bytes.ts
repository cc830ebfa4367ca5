import { type Reservation, smallBytes } from "../../../core/byte-budget.ts";

/** The rule for a call whose history does not fit into the bytes in flight. */
export type HistoryRule = "refuse" | "wait" | "add";

/** The stored messages that a call has loaded, as a part of the bytes in flight. Small histories do not count. */
export class HistoryBytes {
  readonly #reservation: Reservation;
  readonly #rule: HistoryRule;
  readonly #releases: (() => void)[] = [];
  #counted = 0;
  #isClosed = false;

  constructor(reservation: Reservation, rule: HistoryRule) {
    this.#reservation = reservation;
    this.#rule = rule;
  }

  /** Counts a history that is about to be loaded. Of several, the largest counts. */
  async admit(bytes: number, signal: AbortSignal): Promise<void> {
    const more = bytes - this.#counted;
    if (bytes <= smallBytes || more <= 0) return;
    this.#counted = bytes;
    this.#releases.push(await this.#reservation.load(more, this.#rule, signal));
    if (this.#isClosed) this.close();
  }

  /** The messages are no longer used. */
  close(): void {
    this.#isClosed = true;
    for (const release of this.#releases.splice(0)) release();
  }
}
