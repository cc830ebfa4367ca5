export interface SteadyClockOptions {
  /** A difference to the monotonic clock that is followed at once. Larger ones are jumps. */
  readonly toleranceMs: number;
  /** The time after which a jump counts. A clock that jumps back before has no effect. */
  readonly confirmMs: number;
}

/** The time of the wall clock, in which a jump counts only once it has lasted. */
export function createSteadyClock({ toleranceMs, confirmMs }: SteadyClockOptions): () => number {
  let offset = Date.now() - performance.now();
  let jump: { readonly offset: number; readonly since: number } | undefined;
  return () => {
    const elapsed = performance.now();
    const found = Date.now() - elapsed;
    const isNear = (other: number): boolean => Math.abs(found - other) <= toleranceMs;
    if (!isNear(offset) && (!jump || !isNear(jump.offset))) jump = { offset: found, since: elapsed };
    if (isNear(offset) || elapsed - jump!.since >= confirmMs) {
      offset = found;
      jump = undefined;
    }
    return elapsed + offset;
  };
}
