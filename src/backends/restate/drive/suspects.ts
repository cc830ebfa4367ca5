/** The answer to a drive that was interrupted. */
export interface Clearance {
  readonly mayRun: boolean;
  /** The drive has stored a row, or was released: the next suspect may run. */
  readonly end: () => void;
}

/** The time after which a suspect that runs no longer holds up the next one. */
const suspectMs = 30_000;

/**
 * The suspects of this replica, one at a time. A suspect is an execution that two crashes in a row have interrupted at the
 * same row. If the process dies while only one of them runs, it is known which.
 */
export class Suspects {
  #last: Promise<unknown> = Promise.resolve();

  /** Resolves when it is the turn of the caller, to the function that ends the turn. */
  async enter(): Promise<() => void> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await before;
    const timer = setTimeout(resolve, suspectMs).unref();
    return () => {
      clearTimeout(timer);
      resolve();
    };
  }
}
