import { unknownDensity } from "../../../core/byte-budget.ts";
import type { NextTimes } from "../../../engine/runs/run-port.ts";
import { groupOf, type Admissible } from "../../../engine/runs/groups.ts";
import type { Slots } from "../../../engine/runs/slots.ts";
import type { Drive, DriveRests } from "../drive.ts";
import type { RestingPlace, WaitTable } from "../store/tables/wait-table.ts";
import type { Writer } from "../store/writer.ts";

export interface RestsParts {
  readonly slots: Slots;
  readonly writer: Writer;
  readonly waits: WaitTable;
  /** The file has everything about the execution. */
  readonly forget: (drive: Drive) => void;
  /** A row of the execution can never be written. */
  readonly fail: (drive: Drive, error: unknown) => void;
  /** A timer was added to the file. */
  readonly onTimer: () => void;
}

/**
 * The executions that rest: they are running, and only wait for a time.
 *
 * Z1. One that rests has no slot, and keeps its place in its group.
 * Z2. From `minStoredRestMs` on the file says that it rests: a crash does not interrupt it. The file says that the rest is over
 *     before its code runs.
 * Z3. From `maxDrivenRestMs` on it has no drive, and a timer in the file continues it.
 */
export class Rests implements DriveRests {
  readonly #parts: RestsParts;
  /** The places in their groups of executions that rest without a drive. */
  readonly #places = new Map<number, Admissible>();

  constructor(parts: RestsParts) {
    this.#parts = parts;
  }

  begin(drive: Drive, ms: number, times: NextTimes): void {
    const { slots, writer, waits, forget, onTimer } = this.#parts;
    if (ms < minStoredRestMs) return;
    const { number } = drive;
    const events = drive.walk.parkedBranches().flatMap(({ event }) => event ?? []);
    drive.isRestStored = true;
    writer.write({
      work: () => (drive.isResting ? waits.rest(number, times, events) : undefined),
      done: () => {
        if (!drive.isResting || drive.isReleased || ms <= maxDrivenRestMs) return;
        if (groupOf(drive)) this.#places.set(number, slots.keepPlace(drive));
        forget(drive);
        onTimer();
      },
      fail: () => {}, // it rests in memory
      stalled: () => true,
    });
  }

  /** Ends the rest of a drive. It queues behind what already waits for a slot. */
  end(drive: Drive): void {
    const { slots, writer, waits, fail } = this.#parts;
    const { number } = drive;
    const enter = (): void => {
      if (!drive.isReleased) slots.enter(drive, drive.run.bytes * unknownDensity);
    };
    if (!drive.isRestStored) return enter();
    // Durable before its code runs: from now on a crash counts.
    writer.write({
      work: () => waits.remove(number),
      done: () => {
        drive.isRestStored = false;
        enter();
      },
      fail: (error) => fail(drive, error),
    });
  }

  /** Gives an execution that has rested without a drive the next free slot. The file says that its rest is over. */
  endLoaded(drive: Drive): void {
    const { slots } = this.#parts;
    const place = this.#takePlace(drive.number);
    if (place) slots.givePlace(place, drive);
    slots.enter(drive, drive.run.bytes * unknownDensity, place ? undefined : groupOf(drive));
  }

  /** Keeps the place of an execution that rests since before this process. */
  holdPlace({ number, workflowId, key }: RestingPlace): void {
    const place: Admissible = { admit() {} };
    this.#parts.slots.hold(place, { workflowId, key });
    this.#places.set(number, place);
  }
  /** Gives the place of an execution back that rests without a drive. */
  leavePlace(number: number): void {
    const place = this.#takePlace(number);
    if (place) this.#parts.slots.leave(place);
  }
  #takePlace(number: number): Admissible | undefined {
    const place = this.#places.get(number);
    this.#places.delete(number);
    return place;
  }
}

/** Min rest that the file has. */
const minStoredRestMs = 250;
/** Max rest of a drive in memory. */
const maxDrivenRestMs = 5_000;
