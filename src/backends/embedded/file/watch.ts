import type { Store } from "../store/store.ts";
import type { Writer } from "../store/writer.ts";

export interface Watch {
  isWritable(): boolean;
  stop(): void;
}

/**
 * Notices without a request that the data file is missing, and that the store can be written again.
 * While `isWritable` is asked and nothing else is written, it writes a few KB every `probeMs`, because a full or read-only
 * disk shows only in a write.
 */
export function startWatch(store: Store, writer: Writer): Watch {
  let probing = false;
  let isAsked = false;
  let probedAt = performance.now();
  const end = (): boolean => {
    probing = false;
    return true;
  };
  const isWritable = (): boolean => !writer.isStalled && store.isThere;
  const isDue = (): boolean => isAsked && performance.now() - Math.max(probedAt, writer.committedAt) >= probeMs;
  const timer = setInterval(() => {
    if (probing || (isWritable() && !isDue())) return;
    probing = true;
    isAsked = false;
    probedAt = performance.now();
    // The writer fails and recovers with its jobs. One that is dropped is written again next time.
    writer.write({ work: () => store.touch(), done: end, fail: end, stalled: end });
  }, 500).unref();
  return {
    isWritable() {
      isAsked = true;
      return isWritable();
    },
    stop: () => clearInterval(timer),
  };
}

const probeMs = 5_000;
