import type { Store } from "./store.ts";
import type { Writer } from "./writer.ts";

/** Removes executions whose retention is over, a few at a time. Returns the stop. */
export function startRetention(store: Store, writer: Writer, retentionMs: number): () => void {
  const pauseMs = Math.min(60_000, Math.max(250, retentionMs / 10));
  let stopped = false;
  let timer: NodeJS.Timeout;
  const wait = (ms: number, next: () => void): void => {
    if (!stopped) timer = setTimeout(next, ms).unref();
  };
  const again = (): void => wait(pauseMs, () => sweep(0));

  function sweep(after: number): void {
    writer.write<number | undefined>({
      work: () => store.sweep(after, Date.now() - retentionMs, atOnce),
      done: (next) => (next === undefined ? again() : wait(0, () => sweep(next))),
      fail: again,
      stalled: () => {
        again();
        return true;
      },
    });
  }

  sweep(0);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

/** The executions of one transaction: few, so that requests do not notice. */
const atOnce = 100;
