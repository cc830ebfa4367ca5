import type { ParkedBranch } from "../execution.ts";
import type { Value } from "../walk/value.ts";

/** An event that a branch may take. */
export interface ComingEvent {
  /** The wake key of the branch's wait. */
  readonly key: string;
  /** The time at which it was received. */
  readonly at: number;
}

/**
 * True if a due wait comes before an event. Both are ordered by their times, even if they are processed later: at a resume, or
 * at the next start. In the same millisecond the order is: other waits, the event, the deadline of the wait that takes the
 * event.
 */
export function countsBefore({ due, key }: ParkedBranch<Value>, event: ComingEvent | undefined): boolean {
  if (!event || due!.at < event.at) return true;
  return due!.at === event.at && key !== event.key;
}
