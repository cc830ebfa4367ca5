import type { Retry } from "../definition/definition.ts";

/**
 * Returns the delay before an attempt, in whole milliseconds: `min(delay × backoff^(attempt − 2), maxDelay)`, and of that
 * the part `1 − jitter × h`. `h` is a hash of the step's idempotency key and the attempt, from 0 to 1. It differs between
 * executions, steps and attempts, and a replay finds the same delay.
 */
export function toRetryDelay(retry: Retry, attempt: number, idempotencyKey: string): number {
  const { delay = 0, backoff = 1, maxDelay = longestMs, jitter = 0 } = retry;
  if (attempt === 1 || delay === 0) return 0;
  const whole = Math.min(delay * backoff ** (attempt - 2), maxDelay, longestMs);
  return Math.round(jitter === 0 ? whole : whole * (1 - jitter * toFraction(`${idempotencyKey}#${attempt}`)));
}

/** A delay that grows without a limit would become infinite: the attempt would never start. */
const longestMs = Number.MAX_SAFE_INTEGER;

/** Maps a text evenly to a number from 0 to 1, without 1: FNV-1a, and the last steps of MurmurHash3. */
function toFraction(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
