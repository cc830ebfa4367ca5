import type { Run } from "../../../engine/runs/run.ts";
import type { Slots } from "../../../engine/runs/slots.ts";
import type { Store, StoredState } from "../store/store.ts";
import type { Writer } from "../store/writer.ts";

export interface AbsencesParts {
  readonly slots: Slots;
  readonly writer: Writer;
  readonly store: Store;
  /** A row of the run can never be written. */
  readonly fail: (run: Run<StoredState>, error: unknown) => void;
}

/**
 * The runs whose code waits for other executions.
 *
 * A1. Such a run has lent its slot.
 * A2. The file says so: a crash does not count for it. The file says that it is over before its code continues.
 */
export class Absences {
  readonly #parts: AbsencesParts;
  readonly #runs = new Set<Run<StoredState>>();

  constructor(parts: AbsencesParts) {
    this.#parts = parts;
  }

  begin(run: Run<StoredState>): void {
    const { slots, writer, store } = this.#parts;
    this.#runs.add(run);
    writer.write({
      work: () => store.startAbsence(run.committed.number),
      done: () => {},
      fail: () => {}, // a crash counts
      stalled: () => true,
    });
    slots.lend(run);
  }

  /** Resolves when the run has a slot again. */
  async end(run: Run<StoredState>): Promise<void> {
    const { slots, writer, store, fail } = this.#parts;
    const { promise, resolve } = Promise.withResolvers<void>();
    const work = (): void => store.endAbsence(run.committed.number);
    writer.write({ work, done: resolve, fail: (error) => fail(run, error) });
    await promise;
    await slots.regain(run);
    this.#runs.delete(run);
  }

  has(run: Run<StoredState>): boolean {
    return this.#runs.has(run);
  }
  /** The run is released. */
  forget(run: Run<StoredState>): void {
    this.#runs.delete(run);
  }
}
