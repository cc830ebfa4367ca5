import type { Slots } from "../../../engine/runs/slots.ts";
import type { Drive } from "../drive.ts";
import type { Store } from "../store/store.ts";
import type { Writer } from "../store/writer.ts";

export interface AbsencesParts {
  readonly slots: Slots;
  readonly writer: Writer;
  readonly store: Store;
  /** A row of the run can never be written. */
  readonly fail: (drive: Drive, error: unknown) => void;
}

/**
 * The runs whose code waits for other executions.
 *
 * A1. Such a run has lent its slot.
 * A2. The file says so: a crash does not count for it. The file says that it is over before its code continues.
 */
export class Absences {
  readonly #parts: AbsencesParts;
  readonly #drives = new Set<Drive>();

  constructor(parts: AbsencesParts) {
    this.#parts = parts;
  }

  begin(drive: Drive): void {
    const { slots, writer, store } = this.#parts;
    this.#drives.add(drive);
    writer.write({
      work: () => store.processes.startAbsence(drive.number),
      done: () => {},
      fail: () => {}, // a crash counts
      stalled: () => true,
    });
    slots.lend(drive);
  }

  /** Resolves when the run has a slot again. */
  async end(drive: Drive): Promise<void> {
    const { slots, writer, store, fail } = this.#parts;
    const { promise, resolve } = Promise.withResolvers<void>();
    const work = (): void => store.processes.endAbsence(drive.number);
    writer.write({ work, done: resolve, fail: (error) => fail(drive, error) });
    await promise;
    await slots.regain(drive);
    this.#drives.delete(drive);
  }

  has(drive: Drive): boolean {
    return this.#drives.has(drive);
  }
  /** The run is released. */
  forget(drive: Drive): void {
    this.#drives.delete(drive);
  }
}
