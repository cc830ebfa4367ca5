import { fromJsonText } from "../core/json.ts";
import type { ParkedBranch, Position, Transition } from "./execution.ts";

/** A suspension as events and `state` show it. */
export interface Suspension extends Position {
  readonly suspendedAt: string;
  readonly reason: string;
  /** `system` if the server suspended the execution. */
  readonly kind?: "system";
  readonly data?: unknown;
  /** Every branch that waits, when there are several. */
  readonly pending?: (Position & { reason: string; data?: unknown })[];
}

export function toSuspension({ at, reason, kind, pending, position }: Transition & { to: "suspended" }): Suspension {
  const [first] = pending;
  return {
    suspendedAt: new Date(at).toISOString(),
    reason,
    ...(kind && { kind }),
    ...(first ? toPending(first) : (position ?? noPosition)),
    ...(pending.length > 1 && { pending: pending.map(toPending) }),
  };
}

/** The position of a suspension from outside while none is known. */
const noPosition: Position = { stepIndex: 0, stepId: "" };

function toPending({ stepIndex, stepId, reason, data }: ParkedBranch): Position & { reason: string; data?: unknown } {
  return { stepIndex, stepId, reason, ...(data !== undefined && { data: fromJsonText(data) }) };
}
