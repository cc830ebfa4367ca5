import { toIso } from "../core/iso-time.ts";
import { toSuspension } from "./suspension.ts";
import type { Transition } from "./execution.ts";

/** An event without its number and time: these follow from its place in the journal. */
export interface EventBody {
  readonly type: string;
  readonly from?: string;
  readonly [key: string]: unknown;
}
/** An event of the journal, as readers see it. */
export interface StoredEvent extends EventBody {
  readonly executionId: string;
  readonly seq: number;
  readonly timestamp: string;
}
/**
 * The beginning of a copied step in a fork; with a status, its end. It has the time of its row in the original and
 * no `seq`: `GET …/steps` reads it, and no stream shows it.
 */
export type CopiedEvent = readonly [path: string, status?: "success" | "skipped"];
/** An event of the author's own: live only, without a `seq`. Readers tell the two kinds apart by it. */
export interface LiveEvent {
  readonly type: string;
  readonly seq?: never;
  readonly executionId: string;
  readonly timestamp: string;
  readonly from: string;
  readonly [key: string]: unknown;
}

/** An event with its number, at the time of the row that it follows from. */
function toEvent(executionId: string, seq: number, at: number, body: EventBody): StoredEvent {
  const { type, ...details } = body;
  return { type, executionId, seq, timestamp: toIso(at), ...details };
}

/** The events of a row; `seq` is the number of the last one. */
export function toEvents(
  executionId: string,
  { at, seq, events }: { at: number; seq: number; events: readonly EventBody[] },
): StoredEvent[] {
  return events.map((body, index) => toEvent(executionId, seq - events.length + 1 + index, at, body));
}

/** The events of suspensions and ends. A resume has none. */
export const toTransitionEvents = (transitions: readonly Transition[]): EventBody[] =>
  transitions.filter(({ to }) => to !== "running").map(toTransitionEvent);

function toTransitionEvent(next: Transition): EventBody {
  if (next.to === "suspended") return { type: "workflow-suspended", suspension: toSuspension(next) };
  if ("cancellation" in next) return { type: "workflow-error", cancellation: toCancellation(next) };
  if ("error" in next) return { type: "workflow-error", error: next.error };
  return { type: "workflow-complete" };
}

export function toCancellation({ at, cancellation }: Transition & { cancellation: { reason: string } }): {
  cancelledAt: string;
  reason: string;
} {
  return { cancelledAt: toIso(at), reason: cancellation.reason };
}

/** True if an event closes the streams that carry it. */
export function isClosing({ type }: { type: string }): boolean {
  return type === "workflow-suspended" || type === "workflow-complete" || type === "workflow-error";
}
