import type { StoredEvent, LiveEvent } from "../events.ts";

type Event = StoredEvent | LiveEvent;

/** The readers of live events, by execution. */
export class Readers {
  readonly #byId = new Map<string, Set<Reader>>();
  readonly #bufferBytes: number;

  constructor(bufferBytes: number) {
    this.#bufferBytes = bufferBytes;
  }

  open(id: string, signal: AbortSignal): Reader {
    const readers = this.#byId.get(id) ?? new Set();
    this.#byId.set(id, readers);
    const reader = new Reader(this.#bufferBytes, signal, () => {
      readers.delete(reader);
      if (readers.size === 0) this.#byId.delete(id);
    });
    readers.add(reader);
    return reader;
  }

  has(id: string): boolean {
    return this.#byId.has(id);
  }

  publish(id: string, event: Event): void {
    const readers = this.#byId.get(id);
    if (readers) for (const reader of readers) reader.push(event);
  }

  /** Closes the readers of an execution that this process no longer drives. */
  close(id: string): void {
    for (const reader of this.#byId.get(id) ?? []) reader.close();
  }

  closeAll(): void {
    for (const id of this.#byId.keys()) this.close(id);
  }
}

/** The queue of one reader. When it is full, it is emptied; `next` then says `"lagging"`, and the stored events are read again. */
export class Reader {
  readonly close: () => void;
  readonly #bufferBytes: number;
  #queue: Event[] = [];
  #bytes = 0;
  #lagging = false;
  #closed = false;
  #wake = (): void => {};

  constructor(bufferBytes: number, signal: AbortSignal, forget: () => void) {
    this.#bufferBytes = bufferBytes;
    this.close = () => {
      this.#closed = true;
      forget();
      this.#wake();
    };
    if (signal.aborted) this.close();
    else signal.addEventListener("abort", this.close, { once: true });
  }

  push(event: Event): void {
    if (this.#lagging) return;
    this.#queue.push(event);
    this.#bytes += JSON.stringify(event).length;
    if (this.#bytes > this.#bufferBytes) {
      this.#queue = [];
      this.#bytes = 0;
      this.#lagging = true;
    }
    this.#wake();
  }

  /** The number of the first stored event in the queue. */
  nextSeq(): number | undefined {
    return this.#queue.find(({ seq }) => seq !== undefined)?.seq;
  }

  /** The next event; `"lagging"` when some were dropped, undefined when the reader is closed. */
  async next(): Promise<Event | "lagging" | undefined> {
    for (;;) {
      if (this.#closed) return undefined;
      if (this.#lagging) {
        this.#lagging = false;
        return "lagging";
      }
      const event = this.#queue.shift();
      if (event) {
        if (this.#queue.length === 0) this.#bytes = 0;
        return event;
      }
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
