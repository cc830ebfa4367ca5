import { isClosing } from "../../engine/events.ts";
import type { LifecycleEvent, LiveEvent } from "../../engine/types.ts";
import type { Reader } from "./readers.ts";
import type { EmbeddedRun } from "./run.ts";
import type { Store } from "./store.ts";

/** The events of one execution, for one reader: those of the journal, those on their way there, then live ones. */
export class EventLog {
  readonly #id: string;
  readonly #store: Store;
  readonly #run: () => EmbeddedRun | undefined;

  constructor(id: string, store: Store, run: () => EmbeddedRun | undefined) {
    this.#id = id;
    this.#store = store;
    this.#run = run;
  }

  /** Ends after the event of the next suspension or end. */
  async *read(reader: Reader, afterSeq: number): AsyncGenerator<LifecycleEvent | LiveEvent> {
    let cursor = afterSeq;
    try {
      for (;;) {
        // Unless it has listened from the very next event on, it begins with what the journal has.
        if (reader.nextSeq() !== cursor + 1) {
          for (const event of this.#known(cursor)) {
            cursor = event.seq;
            yield event;
          }
          if (this.#isOver(cursor)) return;
        }
        for (;;) {
          const event = await reader.next();
          if (event === undefined) return;
          if (event === "lagging") break;
          const { seq } = event as LifecycleEvent;
          if (seq !== undefined) {
            if (seq <= cursor) continue;
            if (seq > cursor + 1) break; // one was missed between reading and listening
            cursor = seq;
          }
          yield event;
          if (isClosing(event) && this.#isOver(cursor)) return;
        }
      }
    } finally {
      reader.close();
    }
  }

  /** Stored, then emitted and on their way into the journal. */
  *#known(afterSeq: number): Generator<LifecycleEvent> {
    let last = afterSeq;
    for (const event of [...this.#store.events(this.#id, afterSeq), ...(this.#run()?.pending ?? [])]) {
      if (event.seq <= last) continue;
      last = event.seq;
      yield event;
    }
  }

  /** Whether a reader who has come this far has seen the suspension or the end. */
  #isOver(cursor: number): boolean {
    const run = this.#run();
    if (!run) return this.#store.state(this.#id)?.status !== "running";
    const { state, lastEvent } = run;
    return state.status !== "running" && lastEvent !== undefined && isClosing(lastEvent) && cursor >= lastEvent.seq;
  }
}
