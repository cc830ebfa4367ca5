import type { LogEntry } from "./record.ts";

export interface RingLimits {
  readonly logRecords: number;
  readonly logBytes: number;
}

/** The last records, as many as may be kept. The oldest leave. */
export class Ring {
  readonly #limits: RingLimits;
  readonly #entries: (LogEntry | undefined)[] = [];
  #oldest = 1;
  #next = 1;
  #bytes = 0;

  constructor(limits: RingLimits) {
    this.#limits = limits;
  }

  /** The number of the oldest record that is kept. */
  get oldest(): number {
    return this.#oldest;
  }
  /** The number that the next record gets. */
  get next(): number {
    return this.#next;
  }

  add(entry: LogEntry): void {
    const { logRecords, logBytes } = this.#limits;
    if (this.#next - this.#oldest >= logRecords) this.#drop();
    this.#entries[entry.seq % logRecords] = entry;
    this.#bytes += entry.bytes;
    this.#next = entry.seq + 1;
    while (this.#bytes > logBytes && this.#oldest < this.#next) this.#drop();
  }

  #drop(): void {
    const at = this.#oldest++ % this.#limits.logRecords;
    this.#bytes -= this.#entries[at]!.bytes;
    this.#entries[at] = undefined;
  }

  get(seq: number): LogEntry | undefined {
    if (seq < this.#oldest || seq >= this.#next) return undefined;
    return this.#entries[seq % this.#limits.logRecords];
  }

  /** The newest that match, oldest first. */
  newest(matches: (entry: LogEntry) => boolean, limit: number): LogEntry[] {
    const found: LogEntry[] = [];
    for (let seq = this.#next - 1; seq >= this.#oldest && found.length < limit; seq--) {
      const entry = this.get(seq)!;
      if (matches(entry)) found.push(entry);
    }
    return found.toReversed();
  }
}

/** Of many long records, the newest that one answer may hold. */
export function fitting(entries: readonly LogEntry[], bytes: number): readonly LogEntry[] {
  let from = entries.length;
  for (let left = bytes; from > 0 && left >= entries[from - 1]!.bytes; from--) left -= entries[from - 1]!.bytes;
  return entries.slice(from);
}
