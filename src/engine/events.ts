import { toSuspension } from "./suspension.ts";
import type { LifecycleEvent, Transition } from "./types.ts";

export function createEvent(
  executionId: string,
  seq: number,
  at: number,
  type: string,
  details: Record<string, unknown> = {},
): LifecycleEvent {
  return { type, executionId, seq, timestamp: toIso(at), ...details };
}

/** Many events have the time of the same entry, and writing it out is what costs most about an event. */
function toIso(at: number): string {
  if (at !== lastIso.at) lastIso = { at, text: new Date(at).toISOString() };
  return lastIso.text;
}
let lastIso = { at: NaN, text: "" };

/** The event of a suspension or an end. A resume has none. */
export function toTransitionEvent(executionId: string, seq: number, next: Transition): LifecycleEvent {
  const [type, details] = describe(next);
  return createEvent(executionId, seq, next.at, type, details);
}

function describe(next: Transition): [type: string, details?: Record<string, unknown>] {
  if (next.to === "suspended") return ["workflow-suspended", { suspension: toSuspension(next) }];
  if ("cancellation" in next) return ["workflow-error", { cancellation: toCancellation(next) }];
  if ("error" in next) return ["workflow-error", { error: next.error }];
  return ["workflow-complete"];
}

export function toCancellation({ at, cancellation }: Transition & { cancellation: { reason: string } }): {
  cancelledAt: string;
  reason: string;
} {
  return { cancelledAt: new Date(at).toISOString(), reason: cancellation.reason };
}

/** Whether an event closes the streams that carry it. */
export function isClosing({ type }: { type: string }): boolean {
  return type === "workflow-suspended" || type === "workflow-complete" || type === "workflow-error";
}
