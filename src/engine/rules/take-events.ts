import type { EventFilter, Execution } from "../execution.ts";
import type { SentEvent } from "../stored/sent-event.ts";

/** A stored event without its data. */
export interface EventHead extends Pick<SentEvent, "id" | "userId" | "isFromCode"> {
  /** The time at which it was received. */
  readonly at: number;
  /** Its place among all events that a backend stores. */
  readonly order: number;
  /** True if it was stored before the execution began. */
  readonly isOlder: boolean;
}

/**
 * True if a branch that waits for the name and key of an event may take it. An event for a user goes to executions of that
 * user only.
 */
export function mayTake(
  filter: EventFilter,
  head: Pick<EventHead, "userId" | "isFromCode" | "isOlder">,
  { userId }: Pick<Execution, "userId">,
): boolean {
  if (head.userId !== undefined && head.userId !== userId) return false;
  if (filter.isFromCode && !head.isFromCode) return false;
  return filter.isAnyAge === true || !head.isOlder;
}
