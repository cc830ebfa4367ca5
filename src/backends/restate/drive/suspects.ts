import { suspectMs } from "../../../engine/rules/crashes.ts";

/** The answer to a drive that was interrupted. */
export interface Clearance {
  readonly mayRun: boolean;
  /** The drive waits for other executions: the next suspect may run. */
  readonly pass: () => void;
  /** The drive has stored a row, or was released. */
  readonly end: () => void;
}

/**
 * The suspects of this replica, one at a time. A suspect is an execution that two crashes in a row have interrupted at the
 * same row. If the process dies, only the one that started last is suspended, of those that have not made a row.
 */
export class Suspects {
  #last: Promise<unknown> = Promise.resolve();

  /** Resolves when it is the turn of the caller, to the function that ends the turn. */
  async enter(isAlone: boolean): Promise<() => void> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await before;
    const timer = isAlone ? undefined : setTimeout(resolve, suspectMs).unref();
    return () => {
      clearTimeout(timer);
      resolve();
    };
  }
}
