/** Counts requests by key. The window of a key begins with its first request. */
export interface WindowCounter {
  /** Counts a request. Returns undefined, or the milliseconds until the next window if the key is over its limit. */
  count(key: string): number | undefined;
  readonly size: number;
}

export interface WindowCounterOptions {
  readonly limit: number;
  readonly windowMs: number;
  /** Max keys to store. The oldest ones are removed. @default 100000 */
  readonly max?: number;
  /** @default performance.now */
  readonly now?: () => number;
}

export function createWindowCounter(options: WindowCounterOptions): WindowCounter {
  const { limit, windowMs, max = 100_000, now = () => performance.now() } = options;
  // In the order in which the windows began, so the first entries are also the first that end.
  const windows = new Map<string, { readonly end: number; count: number }>();

  function removeOld(at: number): void {
    for (const [key, { end }] of windows) {
      if (end > at && windows.size <= max) return;
      windows.delete(key);
    }
  }

  return {
    count(key) {
      const at = now();
      const known = windows.get(key);
      if (known && known.end > at) return ++known.count > limit ? known.end - at : undefined;
      windows.delete(key); // a new window belongs at the end of the map
      windows.set(key, { end: at + windowMs, count: 1 });
      removeOld(at);
      return undefined;
    },
    get size() {
      return windows.size;
    },
  };
}
