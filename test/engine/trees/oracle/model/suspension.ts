import { inlineSleepMs } from "../../make.ts";
import { eventName } from "../../values.ts";
import type { Model } from "./model.ts";
import { isInFlight, type Leaf } from "./run.ts";

/** A branch that waits, as a suspension shows it. */
interface PendingView {
  readonly suspendedAt: string;
  readonly reason: string;
  readonly stepIndex: number;
  readonly stepId: string;
  readonly kind: "person" | "timer" | "event";
  readonly data?: unknown;
  readonly wakeAt?: string;
  readonly deadline?: string;
  readonly event?: string;
  readonly key?: string;
}
interface Pending {
  readonly view: PendingView;
  readonly dueAt: number | undefined;
}

/**
 * The suspension that follows from the last row; undefined if the execution runs on, or stays running for a short wait. It shows
 * the first branch for a person in the order of the definition, else the first for an event, else the earliest timer.
 */
export function suspensionOf(model: Model): object | undefined {
  if (model.status !== "running" || model.isCopying || model.isJoining) return undefined;
  const leaves = model.leaves();
  if (leaves.some(isInFlight)) return undefined;
  const waits = leaves.map(toPending);
  const persons = waits.filter(({ view }) => view.kind === "person");
  const events = waits.filter(({ view }) => view.kind === "event");
  const timed = waits.filter(({ dueAt }) => dueAt !== undefined).toSorted((one, other) => one.dueAt! - other.dueAt!);
  if (persons.length === 0 && timed.length > 0 && timed[0]!.dueAt! <= model.now + inlineSleepMs) return undefined;
  const shown = persons[0] ?? events[0] ?? timed[0]!;
  const pending = [shown, ...waits.filter((one) => one !== shown)].map(({ view }) => view);
  return { ...shown.view, ...(pending.length > 1 && { pending }) };
}

function toPending(leaf: Leaf): Pending {
  const { stepIndex, path: stepId } = leaf.run;
  const iso = (time: number): string => new Date(time).toISOString();
  const place = { suspendedAt: iso("entry" in leaf ? leaf.entry.askedAt! : leaf.wait.at), stepIndex, stepId };
  if ("entry" in leaf) {
    const { reason, data, due } = leaf.entry.asked!;
    const deadline = due && { deadline: iso(due.at) };
    return { view: { reason, ...place, kind: "person", data: JSON.parse(data!), ...deadline }, dueAt: due?.at };
  }
  const { dueAt, key } = leaf.wait;
  if (key === undefined)
    return {
      view: { reason: `Sleeping until ${iso(dueAt!)}`, ...place, kind: "timer", wakeAt: iso(dueAt!) },
      dueAt,
    };
  const deadline = dueAt !== undefined && { deadline: iso(dueAt) };
  const event = { event: eventName, ...(key !== "" && { key }) };
  return { view: { reason: `Waiting for event ${eventName}`, ...place, kind: "event", ...deadline, ...event }, dueAt };
}

/** The place that a suspension by request shows: the first step in flight, else the first that waits, else the next one. */
export function positionOf(model: Model): { stepIndex: number; stepId: string } {
  const leaves = model.leaves();
  const { stepIndex, path: stepId } = (leaves.find(isInFlight) ?? leaves[0])?.run ?? model.current;
  return { stepIndex, stepId };
}
