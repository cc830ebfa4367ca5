import type { Store } from "../store/store.ts";
import type { Writer } from "../store/writer.ts";

export interface Watch {
  isWritable(): boolean;
  stop(): void;
}

/** Notices without a request that the data file is gone, and that a store which could not be written can be written again. */
export function startWatch(store: Store, writer: Writer): Watch {
  let probing = false;
  const end = (): boolean => {
    probing = false;
    return true;
  };
  const isWritable = (): boolean => !writer.isStalled && store.isThere;
  const timer = setInterval(() => {
    if (probing || isWritable()) return;
    probing = true;
    // The writer fails and recovers with its jobs. One that is dropped is written again next time.
    writer.write({ work: () => store.touch(), done: end, fail: end, stalled: end });
  }, 500).unref();
  return { isWritable, stop: () => clearInterval(timer) };
}
