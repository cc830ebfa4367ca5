import { type StoredEvent, type LiveEvent, isClosing } from "../events.ts";

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

/** A place among the stored events of an execution: the last event, and the last journal row that was read. */
export interface EventCursor {
  readonly seq: number;
  readonly row: number;
}
export interface EventPage {
  readonly events: readonly StoredEvent[];
  /** The place after these events. */
  readonly last: EventCursor;
}
export const firstEvent: EventCursor = { seq: 0, row: 0 };

export interface EventSource {
  /** Reads the next stored events after a place, in order; empty when there are no more. */
  readonly read: (after: EventCursor) => EventPage | Promise<EventPage>;
  /** True if the reader waits for more events: the execution is running, as committed, or may be resumed. */
  readonly isOpen: () => boolean | Promise<boolean>;
}

/** The events of one execution, for one reader: stored ones, then live ones. Ends after a suspension or an end, unless it is open. */
export async function* readEvents(
  { read, isOpen }: EventSource,
  reader: Reader,
  afterSeq: number,
): AsyncGenerator<StoredEvent | LiveEvent> {
  let cursor: EventCursor = { seq: afterSeq, row: 0 };
  // Events and status are committed together: all events of an execution that is not open include the closing one.
  const isOver = async (): Promise<boolean> => !(await isOpen()) && (await read(cursor)).events.length === 0;
  // A reader whose queue begins with the very next event needs nothing from the store: it lacks live events. That may come
  // true while the store is read.
  const hasNext = (): boolean => reader.nextSeq() === cursor.seq + 1;
  try {
    for (;;) {
      if (!hasNext()) {
        for (let page = await read(cursor); page.events.length > 0 && !hasNext(); page = await read(cursor)) {
          yield* page.events;
          cursor = page.last;
        }
        if (!hasNext() && (await isOver())) return;
      }
      for (;;) {
        const event = await reader.next();
        if (event === undefined) return;
        if (event === "lagging") break;
        const { seq } = event;
        if (seq === undefined) yield event;
        else if (seq > cursor.seq) {
          if (seq > cursor.seq + 1) break; // the event between was published before this reader listened
          cursor = { ...cursor, seq };
          yield event;
        }
        // Also after an event that the reader has, or claims to have.
        if (isClosing(event) && (await isOver())) return;
      }
    }
  } finally {
    reader.close();
  }
}
