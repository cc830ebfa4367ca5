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
 * True if a wait whose time has come counts before an event. Both count in the order of their times, also if they are seen
 * later: at a resume, or at the next start. In the same millisecond an event counts after other waits, and before the
 * deadline of its own.
 */
export function countsBefore({ due, key }: ParkedBranch<Value>, event: ComingEvent | undefined): boolean {
  if (!event || due!.at < event.at) return true;
  return due!.at === event.at && key !== event.key;
}
