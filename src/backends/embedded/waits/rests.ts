import { groupOf } from "../../../engine/runs/groups.ts";
import type { NextTimes } from "../../../engine/runs/run-port.ts";
import type { Drive, DriveHost, DriveRests } from "../drive.ts";

/**
 * The executions that rest: they are running, and only wait for a time.
 *
 * Z1. One that rests has no slot, and keeps its place in its group.
 * Z2. From `minStoredRestMs` on the file says that it rests: a crash does not interrupt it. The file says that the rest is over
 *     before its code runs.
 * Z3. From `maxDrivenRestMs` on it has no drive, and a timer in the file continues it.
 */
export class Rests implements DriveRests {
  readonly #host: DriveHost;

  constructor(host: DriveHost) {
    this.#host = host;
  }

  begin(drive: Drive, ms: number, times: NextTimes): void {
    const { slots, writer, store } = this.#host;
    if (ms < minStoredRestMs) return;
    const { number } = drive;
    const events = drive.walk.parkedBranches().flatMap(({ event }) => event ?? []);
    drive.isRestStored = true;
    writer.write({
      work: () => (drive.isResting ? store.waits.rest(number, times, events) : undefined),
      done: () => {
        if (!drive.isResting || drive.isReleased || ms <= maxDrivenRestMs) return;
        slots.replacePlace(drive, number);
        this.#host.forget(drive);
        this.#host.onTimer();
      },
      fail: () => {}, // it rests in memory
      stalled: () => true,
    });
  }

  /** Ends the rest of a drive. It queues behind what already waits for a slot. */
  end(drive: Drive): void {
    const { slots, writer, store } = this.#host;
    const { number } = drive;
    const enter = (): void => {
      if (!drive.isReleased) slots.enter(drive, drive.weight);
    };
    if (!drive.isRestStored) return enter();
    // Durable before its code runs: from now on a crash counts.
    writer.write({
      work: () => store.waits.remove(number),
      done: () => {
        drive.isRestStored = false;
        enter();
      },
      fail: (error) => this.#host.failed(drive, error),
    });
  }

  /** Gives an execution that has rested without a drive the next free slot. The file says that its rest is over. */
  endLoaded(drive: Drive): void {
    const { slots } = this.#host;
    const hasPlace = slots.replacePlace(drive.number, drive);
    slots.enter(drive, drive.weight, hasPlace ? undefined : groupOf(drive));
  }
}

/** Min rest that the file has. */
const minStoredRestMs = 250;
/** Max rest of a drive in memory. */
const maxDrivenRestMs = 5_000;
