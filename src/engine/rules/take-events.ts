import type { EventFilter, Execution } from "../execution.ts";
import type { SentEvent } from "../sent-event.ts";

/** The facts of a stored event that decide which execution may take it. */
interface StoredHead extends Pick<SentEvent, "userId" | "isFromCode"> {
  /** True if it was stored before the execution began. */
  readonly isOlder: boolean;
}

/**
 * True if a branch that waits for the name and key of an event may take it. An event for a user goes to executions of that
 * user only.
 */
export function mayTake(filter: EventFilter, head: StoredHead, { userId }: Pick<Execution, "userId">): boolean {
  if (head.userId !== undefined && head.userId !== userId) return false;
  if (filter.isFromCode && !head.isFromCode) return false;
  return filter.isAnyAge === true || !head.isOlder;
}
