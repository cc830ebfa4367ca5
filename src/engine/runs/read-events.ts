import { isClosing, type LiveEvent, type StoredEvent } from "../events.ts";
import type { Reader } from "./readers.ts";

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
  /** Whether the reader waits for more events: the execution is running, as committed, or may be resumed. */
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
  // A reader that has listened from the very next event on needs nothing from the store, which lacks the live events. That may
  // come true while the store is read.
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
