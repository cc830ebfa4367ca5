import { isClosing, type LiveEvent, type StoredEvent } from "../events.ts";
import type { Reader } from "./readers.ts";

export interface EventSource {
  /** Reads the next stored events after a number, in order; empty when there are no more. */
  readonly read: (afterSeq: number) => readonly StoredEvent[] | Promise<readonly StoredEvent[]>;
  /** Whether the execution is running, as committed. */
  readonly isRunning: () => boolean;
}

/** The events of one execution, for one reader: stored ones, then live ones. Ends after a suspension or an end. */
export async function* readEvents(
  { read, isRunning }: EventSource,
  reader: Reader,
  afterSeq: number,
): AsyncGenerator<StoredEvent | LiveEvent> {
  let cursor = afterSeq;
  // Events and status are committed together: all events of an execution that does not run include the closing one.
  const isOver = async (): Promise<boolean> => !isRunning() && (await read(cursor)).length === 0;
  try {
    for (;;) {
      // A reader that has listened from the very next event on needs nothing from the store.
      if (reader.nextSeq() !== cursor + 1) {
        for (let page = await read(cursor); page.length > 0; page = await read(cursor)) {
          for (const event of page) {
            cursor = Math.max(cursor, event.seq); // a damaged file may have them in any order
            yield event;
          }
        }
        if (await isOver()) return;
      }
      for (;;) {
        const event = await reader.next();
        if (event === undefined) return;
        if (event === "lagging") break;
        const { seq } = event as StoredEvent;
        if (seq !== undefined) {
          if (seq <= cursor) continue;
          if (seq > cursor + 1) break; // the event between was published before this reader listened
          cursor = seq;
        }
        yield event;
        if (isClosing(event) && (await isOver())) return;
      }
    }
  } finally {
    reader.close();
  }
}
