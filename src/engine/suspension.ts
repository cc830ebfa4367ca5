import { toIso } from "../core/iso-time.ts";
import { fromJsonText } from "../core/json.ts";
import type { ParkedBranch, Position, Transition } from "./execution.ts";

/**
 * The reasons why an execution waits.
 * - person   a step called `suspend`
 * - request  a request suspended it
 * - timer    a step sleeps
 * - event    a step waits for an event
 * - system   the server suspended it: its code has changed, or the process crashed repeatedly
 */
export const suspensionKinds = ["person", "request", "timer", "event", "system"] as const;
export type SuspensionKind = (typeof suspensionKinds)[number];

type Suspended = Transition & { to: "suspended" };

/** Returns the kinds of a suspension, its own one first: the kinds of all waiting branches. */
export function kindsOf({ kind, pending, kinds }: Pick<Suspended, "kind" | "pending" | "kinds">): SuspensionKind[] {
  if (kind) return [kind];
  if (pending.length === 0) return ["request"];
  return kinds ? [...kinds] : ["person"]; // suspensions of older versions have only that kind
}
/** Returns the kind of the suspension that an execution is in. */
export function kindOf(last: Transition | undefined): SuspensionKind | undefined {
  return last?.to === "suspended" ? kindsOf(last)[0] : undefined;
}

/** A suspension as events and `state` show it. */
export interface Suspension extends PendingView {
  /** Every branch that waits, when there are several; at most 100. */
  readonly pending?: PendingView[];
  /** The number of branches that wait, if they are more than `pending` shows. */
  readonly pendingCount?: number;
}
/** A branch that waits, as clients see it. */
interface PendingView extends Position {
  /** The time at which the wait began. */
  readonly suspendedAt: string;
  readonly reason: string;
  readonly kind: SuspensionKind;
  readonly data?: unknown;
  /** The end of a sleep. */
  readonly wakeAt?: string;
  /** The time at which a wait for a person or an event times out. */
  readonly deadline?: string;
  /** The name and the key of the event. */
  readonly event?: string;
  readonly key?: string;
}

export function toSuspension(last: Suspended): Suspension {
  const { at, reason, pending, pendingCount, position } = last;
  const [first] = pending;
  return {
    ...(first
      ? toPending(first, at)
      : { suspendedAt: toIso(at), reason, ...(position ?? noPosition), kind: kindsOf(last)[0]! }),
    ...(pending.length > 1 && { pending: pending.map((one) => toPending(one, at)) }),
    ...(pendingCount !== undefined && { pendingCount }),
  };
}

/** The position of an execution that a command suspended, while none is known. */
const noPosition: Position = { stepIndex: 0, stepId: "" };

/** `suspendedAt` is the time of the suspension. */
function toPending(branch: ParkedBranch, suspendedAt: number): PendingView {
  const { stepIndex, stepId, reason, kind = "person", at = suspendedAt, data, due, event } = branch;
  return {
    suspendedAt: toIso(at),
    reason,
    stepIndex,
    stepId,
    kind,
    ...(data !== undefined && { data: fromJsonText(data) }),
    ...(due && (kind === "timer" ? { wakeAt: toIso(due.at) } : { deadline: toIso(due.at) })),
    ...(event && { event: event.name, ...(event.key && { key: event.key }) }),
  };
}
