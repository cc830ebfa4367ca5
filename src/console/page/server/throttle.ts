export interface Throttle {
  /** Runs now, or when the interval after the last run is over. */
  call(): void;
  close(): void;
}

/**
 * Runs something at most once in an interval, and never twice at the same time. Calls in the meantime lead to one more
 * run. After a slow run, the interval is twice its duration, to spare the server.
 */
export function createThrottle(run: () => void | Promise<void>, intervalMs: number): Throttle {
  let isBusy = false;
  let isAsked = false;
  let isClosed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onRested = (): void => {
    isBusy = false;
    if (isAsked) void start();
  };
  const start = async (): Promise<void> => {
    isBusy = true;
    isAsked = false;
    const began = performance.now();
    try {
      await run();
    } finally {
      const rest = Math.max(intervalMs, (performance.now() - began) * 2);
      if (!isClosed) timer = setTimeout(onRested, rest);
    }
  };
  return {
    call() {
      isAsked = true;
      if (!isBusy && !isClosed) void start();
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
