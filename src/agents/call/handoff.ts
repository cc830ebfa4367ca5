/**
 * Hands parts from the code that makes them to one reader.
 *
 * H1. `put` waits until the reader has taken the part: a slow reader slows down the code, and nothing is buffered.
 * H2. The parts are taken in the order in which they were put. The end, or the failure, comes after all of them.
 * H3. After `close`, the reader gets the reason thrown, and `put` waits for nothing. `put` never rejects.
 */
export class Handoff<T extends object> {
  #waiting: WaitingPart<T>[] | undefined;
  #reader: ((part: T | undefined | Promise<undefined>) => void) | undefined;
  #end: HandoffEnd | undefined;
  #isClosed = false;

  get isClosed(): boolean {
    return this.#isClosed;
  }

  put(part: T): Promise<void> | undefined {
    if (this.#end) return undefined;
    const reader = this.#reader;
    if (!reader) return new Promise((taken) => (this.#waiting ??= []).push({ part, taken }));
    this.#reader = undefined;
    reader(part);
    return undefined;
  }

  /** Resolves to the next part; to undefined at the end. */
  take(): Promise<T | undefined> {
    const next = this.#waiting?.shift();
    if (next) {
      next.taken();
      return Promise.resolve(next.part);
    }
    if (this.#end) return toSettled(this.#end);
    return new Promise((resolve) => (this.#reader = resolve));
  }

  /** Ends the parts, or fails with an error. Only the first end counts. */
  end(failure?: { readonly error: unknown }): void {
    if (this.#end) return;
    this.#end = { failure };
    this.#reader?.(toSettled(this.#end));
    this.#reader = undefined;
  }

  /** Ends the parts at once: the reader has left, or the call was aborted. */
  close(error: unknown): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.end({ error });
    for (const { taken } of this.#waiting?.splice(0) ?? []) taken();
  }
}

interface WaitingPart<T> {
  readonly part: T;
  readonly taken: () => void;
}
interface HandoffEnd {
  readonly failure: { readonly error: unknown } | undefined;
}
const toSettled = async ({ failure }: HandoffEnd): Promise<undefined> => {
  if (failure) throw failure.error;
};
