/**
 * The part of `storedEvents` that a sender may use. Code has one half. Users and anonymous callers share the other half, and
 * each of them has a tenth in all. Without a provider, the anonymous caller may use its half alone.
 */
export type Share = "half" | "tenth";

/** True if one more event fits into the share of its sender. `side` counts the events of code, or of all others. */
export function hasRoom(storedEvents: number, share: Share, stored: { own: number; side: number }): boolean {
  const isIn = (count: number, parts: number): boolean => count < Math.max(1, Math.floor(storedEvents / parts));
  return isIn(stored.side, 2) && (share === "half" || isIn(stored.own, 10));
}
