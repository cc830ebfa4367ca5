/** Min time that a drive has to appear on this replica before Restate is asked. */
export const localMs = 20;
const maxMs = 250;

/**
 * The time that a drive takes to appear on this replica when a caller waits for it. The caller asks Restate only after a
 * multiple of it: on a busy replica the drive is late, and the question would add two invocations to its execution.
 */
export class Arrivals {
  readonly #expectedAt = new Map<string, number>();
  #averageMs = 0;

  get waitMs(): number {
    return Math.min(Math.max(2 * this.#averageMs, localMs), maxMs);
  }

  /** A caller waits for the execution. Returns the removal. */
  expect(id: string): () => void {
    this.#expectedAt.set(id, performance.now());
    return () => this.#expectedAt.delete(id);
  }

  /** A drive has appeared. */
  add(id: string): void {
    const expectedAt = this.#expectedAt.get(id);
    if (expectedAt === undefined) return;
    this.#expectedAt.delete(id);
    this.#averageMs += (performance.now() - expectedAt - this.#averageMs) / 8;
  }
}
