import type { Clock } from "../../../core/clock.ts";

export interface SteadyClockOptions {
  readonly clock: Clock;
  /** A difference to the monotonic clock that is followed at once. Larger ones are jumps. */
  readonly toleranceMs: number;
  /** The time after which a jump counts. A clock that jumps back before has no effect. */
  readonly confirmMs: number;
}

/** The time of the wall clock, in which a jump counts only once it has lasted. */
export function createSteadyClock({ clock, toleranceMs, confirmMs }: SteadyClockOptions): () => number {
  let offset = clock.now() - clock.monotonic();
  let jump: { readonly offset: number; readonly since: number } | undefined;
  return () => {
    const elapsed = clock.monotonic();
    const found = clock.now() - elapsed;
    const isNear = (other: number): boolean => Math.abs(found - other) <= toleranceMs;
    if (!isNear(offset) && (!jump || !isNear(jump.offset))) jump = { offset: found, since: elapsed };
    if (isNear(offset) || elapsed - jump!.since >= confirmMs) {
      offset = found;
      jump = undefined;
    }
    return elapsed + offset;
  };
}
