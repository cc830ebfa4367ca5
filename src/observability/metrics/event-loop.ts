import { monitorEventLoopDelay } from "node:perf_hooks";

/** The delay of the event loop since the last reading, in seconds. */
export interface LoopDelay {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}
export interface LoopMonitor {
  /** The first call starts the measurement and returns undefined: an unwatched server need not measure. */
  read(): LoopDelay | undefined;
  close(): void;
}

/** The interval of the measuring timer, in milliseconds. */
const resolution = 20;

export function createLoopMonitor(): LoopMonitor {
  let histogram: ReturnType<typeof monitorEventLoopDelay> | undefined;
  let isClosed = false;
  return {
    read() {
      if (isClosed) return undefined;
      const known = histogram;
      histogram ??= monitorEventLoopDelay({ resolution });
      if (!known) histogram.enable();
      if (!known || known.count === 0) return undefined;
      const delay = { p50: toDelay(known.percentile(50)), p99: toDelay(known.percentile(99)), max: toDelay(known.max) };
      known.reset();
      return delay;
    },
    close() {
      isClosed = true;
      histogram?.disable();
    },
  };
}

/** Node records the time between two runs of the timer, in nanoseconds. */
const toDelay = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - resolution / 1e3);
