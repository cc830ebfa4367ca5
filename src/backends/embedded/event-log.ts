import { isClosing } from "../../engine/events.ts";
import type { StoredEvent, LiveEvent } from "../../engine/events.ts";
import type { Reader } from "../../engine/runs/readers.ts";
import type { Store } from "./store.ts";

/** The events of one execution, for one reader: those of the journal, then live ones. Ends after a suspension or an end. */
export async function* readEvents(
  store: Store,
  id: string,
  reader: Reader,
  afterSeq: number,
  isRunning: () => boolean,
): AsyncGenerator<StoredEvent | LiveEvent> {
  let cursor = afterSeq;
  // Events and status are committed together: whoever has all events of a suspended or ended one has seen why.
  const isOver = (): boolean => !isRunning() && store.events(id, cursor).length === 0;
  try {
    for (;;) {
      // Unless it has listened from the very next event on, it begins with what the journal has.
      if (reader.nextSeq() !== cursor + 1) {
        for (const event of store.events(id, cursor)) {
          cursor = Math.max(cursor, event.seq); // a damaged file may have them in any order
          yield event;
        }
        if (isOver()) return;
      }
      for (;;) {
        const event = await reader.next();
        if (event === undefined) return;
        if (event === "lagging") break;
        const { seq } = event as StoredEvent;
        if (seq !== undefined) {
          if (seq <= cursor) continue;
          if (seq > cursor + 1) break; // one was missed between reading and listening
          cursor = seq;
        }
        yield event;
        if (isClosing(event) && isOver()) return;
      }
    }
  } finally {
    reader.close();
  }
}
