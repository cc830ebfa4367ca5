import type { LogEntry } from "./record.ts";

export interface RingLimits {
  readonly logRecords: number;
  readonly logBytes: number;
}

/** The newest log records, up to the limits. The oldest are evicted first. */
export class Ring {
  readonly #limits: RingLimits;
  readonly #entries: (LogEntry | undefined)[] = [];
  #oldest = 1;
  #next = 1;
  #bytes = 0;

  constructor(limits: RingLimits) {
    this.#limits = limits;
  }

  /** The sequence number of the oldest stored record. */
  get oldest(): number {
    return this.#oldest;
  }
  /** The sequence number of the next record. */
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
    this.#bytes -= this.#entries[at]?.bytes ?? 0;
    this.#entries[at] = undefined;
  }

  get(seq: number): LogEntry | undefined {
    if (seq < this.#oldest || seq >= this.#next) return undefined;
    return this.#entries[seq % this.#limits.logRecords];
  }

  /** Returns the newest matching records, oldest first. */
  newest(matches: (entry: LogEntry) => boolean, limit: number): LogEntry[] {
    const found: LogEntry[] = [];
    for (let seq = this.#next - 1; seq >= this.#oldest && found.length < limit; seq--) {
      const entry = this.get(seq);
      if (entry && matches(entry)) found.push(entry);
    }
    return found.toReversed();
  }
}

/** Returns as many of the newest records as fit into a number of bytes. */
export function fitting(entries: readonly LogEntry[], bytes: number): readonly LogEntry[] {
  let left = bytes;
  const last = entries.findLastIndex((entry) => (left -= entry.bytes) < 0); // the newest one that does not fit
  return entries.slice(last + 1);
}
