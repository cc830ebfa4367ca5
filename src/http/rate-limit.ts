import { hash } from "node:crypto";
import type { Caller } from "../core/caller.ts";
import { type Clock, fromDuration, systemClock } from "../core/clock.ts";
import { ServeError } from "../core/error.ts";
import { createProxyReader, toSubscriber, type ProxyReader } from "./client-address.ts";
import { isPreflight } from "./cors.ts";

/** The rate limit of a server. A request over the limit gets 429 with `Retry-After`. */
export interface RateLimitOptions {
  /** Max requests of a caller in one window. */
  limit: number;
  /** The length of a window, in milliseconds or as text: `"30s"`, `"1m"`. */
  window: number | string;
  /**
   * Returns a name for the caller of a request. `user` is the user that the authentication provider returned. Undefined
   * counts the request by default. @default the id of the user, or else the address of the client
   */
  key?: ((request: Request, user: Caller["user"] | undefined) => string | undefined) | undefined;
}

/** Refuses requests over the limit. Both functions throw the 429. */
export interface RateLimit {
  /** Counts a request by its address before authentication, so that tokens cannot be guessed without a limit. */
  checkAddress(request: Request, path: string): void;
  /** Counts a request by its caller after authentication. */
  checkCaller(request: Request, path: string, caller: Caller | undefined): void;
}

/** Many users may share an address, so an address may send more requests than a user. */
const usersPerAddress = 10;

export function createRateLimit(
  options: RateLimitOptions,
  trustedProxies: readonly string[],
  clock: Clock = systemClock,
): RateLimit {
  const { limit, window, key } = options;
  const windowMs = toWindowMs(window)!;
  const now = (): number => clock.monotonic();
  const { findAddress } = createProxyReader(trustedProxies);
  // Separate tables: a flood of addresses must not remove user counts.
  const addresses = createWindowCounter({ limit: limit * usersPerAddress, windowMs, now });
  const callers = createWindowCounter({ limit, windowMs, now });

  function toSubscriberOf(request: Request): string | undefined {
    const address = findAddress(request);
    return address && toSubscriber(address);
  }

  function toName(request: Request, caller: Caller | undefined): string | undefined {
    const own = key?.(request, caller?.user);
    if (own !== undefined && typeof own !== "string") throw new TypeError("rateLimit.key() must return a string");
    return own === undefined ? toCallerName(request, caller, findAddress) : `key ${own}`;
  }

  return {
    checkAddress(request, path) {
      if (!isExempt(request, path)) count(addresses, toSubscriberOf(request));
    },
    checkCaller(request, path, caller) {
      if (!isExempt(request, path)) count(callers, toName(request, caller));
    },
  };
}

/** Returns the name by which a caller is counted: the user id, else the address. Undefined if neither is known. */
export function toCallerName(
  request: Request,
  caller: Caller | undefined,
  findAddress: ProxyReader["findAddress"],
): string | undefined {
  if (caller?.userId !== undefined) return `user ${caller.userId}`;
  const address = findAddress(request);
  return address && `address ${toSubscriber(address)}`;
}

/** Returns the length of a window in milliseconds, or undefined if it is invalid. */
export function toWindowMs(window: unknown): number | undefined {
  const ms = typeof window === "string" ? fromDuration(window) : window;
  return Number.isSafeInteger(ms) && (ms as number) > 0 ? (ms as number) : undefined;
}

function count(counter: WindowCounter, name: string | undefined): void {
  // Without an address, a user or a key, there is nothing to count by.
  const waitMs = name === undefined ? undefined : counter.count(toShort(name));
  if (waitMs === undefined) return;
  const seconds = String(Math.max(1, Math.ceil(waitMs / 1_000)));
  throw new ServeError(429, "Too many requests", { headers: [["retry-after", seconds]] });
}

/** Hashes a long name: clients may choose it, and the table stores many. */
export const toShort = (name: string): string => (name.length > 100 ? hash("sha256", name) : name);

/** A load balancer's health checks must not fail because of traffic. A preflight does not run a route. */
function isExempt(request: Request, path: string): boolean {
  const isRead = request.method === "GET" || request.method === "HEAD";
  return (isRead && /^\/(health|ready)\/?$/.test(path)) || isPreflight(request);
}

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
  // In the order of their starts: the first entries are also the first to end.
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
