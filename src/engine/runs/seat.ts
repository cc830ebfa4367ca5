import type { WalkSlot } from "../attempts/walk.ts";
import type { Admissible } from "./groups.ts";
import type { Slots } from "./slots.ts";

/**
 * Why the code of a running execution runs, or does not:
 *
 * - `waiting` for a slot, or for a place in its group
 * - `running` in a slot
 * - `lent`: all of it waits for other executions, which may use the slot
 * - `resting`: it waits for a time, without a slot. Its place in the group stays.
 */
export type SeatState = "waiting" | "running" | "lent" | "resting";
export type SeatEvent = "admit" | "lend" | "rest" | "wake";

const transitions: Readonly<Record<SeatState, Partial<Record<SeatEvent, SeatState>>>> = {
  waiting: { admit: "running" },
  running: { lend: "lent", rest: "resting" },
  lent: { admit: "running", rest: "resting" },
  resting: { wake: "waiting" },
};
export const nextSeat = (state: SeatState, event: SeatEvent): SeatState => transitions[state][event] ?? state;

export interface SeatHost {
  readonly slots: Slots;
  /** Stores that the code waits for other executions: a crash does not count for it. Resolves when the end of that is durable. */
  readonly markLent: (isLent: boolean) => Promise<void>;
}

/** The seat of one execution among those that this process drives. */
export class Seat implements WalkSlot {
  readonly #run: Admissible;
  readonly #host: SeatHost;
  /** Changed only by the seat. */
  state: SeatState = "waiting";
  /** One mark after the other: an execution that continues at once must not be marked afterwards. */
  #marked: Promise<void> | undefined;

  constructor(run: Admissible, host: SeatHost) {
    this.#run = run;
    this.#host = host;
  }

  /** The execution has got a slot. */
  admit(): void {
    this.#on("admit");
  }
  /** Gives the slot back. */
  rest(): void {
    this.#on("rest");
    this.#host.slots.rest(this.#run);
  }
  /** The execution asks for a slot again. */
  wake(): void {
    this.#on("wake");
  }

  lend(): void {
    this.#on("lend");
    this.#host.slots.lend(this.#run);
    void this.#mark(true);
  }
  async regain(): Promise<void> {
    await this.#mark(false);
    await this.#host.slots.regain(this.#run);
    this.#on("admit");
  }

  #mark(isLent: boolean): Promise<void> {
    const before = this.#marked;
    const mark = (): Promise<void> => this.#host.markLent(isLent);
    return (this.#marked = before ? before.then(mark) : mark());
  }
  #on(event: SeatEvent): void {
    this.state = nextSeat(this.state, event);
  }
}
