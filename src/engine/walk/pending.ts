import type { ParkedBranch, Transition } from "../execution.ts";
import type { Value } from "./value.ts";

/** Max branches that a suspension lists. `GET …/steps?status=suspended` has all of them. */
const maxPending = 100;

type Parked = ParkedBranch<Value>;
type Pending = Pick<
  Transition<Value> & { to: "suspended" },
  "reason" | "pending" | "pendingCount" | "kinds" | "wake" | "events"
>;

/**
 * True if the execution stays running while its branches wait: none waits for a person, and the first time comes soon. The
 * limit for soon is stored with the wait: a changed limit does not change a replay.
 */
export function isShortWait(parked: readonly Parked[], now: number): boolean {
  const first = parked.reduce<Parked | undefined>((one, other) => (isBefore(other, one) ? other : one), undefined);
  if (!first?.due || first.due.at > now + (first.inlineMs ?? 0)) return false;
  return !parked.some(isForPerson);
}

/** The suspension for waiting branches: the shown one, the first of the others, and the times and events that end it. */
export function toPending(parked: readonly Parked[]): Pending {
  const shown =
    parked.find(isForPerson) ??
    parked.find(({ kind }) => kind === "event") ??
    parked.reduce((one, other) => (isBefore(other, one) ? other : one));
  const pending = [shown, ...parked.filter((one) => one !== shown)].slice(0, maxPending);
  const kinds = new Set(pending.concat(parked).map(({ kind = "person" }) => kind));
  const events = parked.flatMap(({ event }) => event ?? []);
  return {
    reason: shown.reason,
    pending,
    ...(parked.length > maxPending && { pendingCount: parked.length }),
    ...(!parked.every(isForPerson) && { kinds: [...kinds] }),
    ...toWake(parked),
    ...(events.length > 0 && { events: [...new Map(events.map((one) => [JSON.stringify(one), one])).values()] }),
  };
}

/** The first time of each clock. */
function toWake(parked: readonly Parked[]): Pick<Pending, "wake"> {
  const dues = parked.flatMap(({ due }) => due ?? []);
  const firsts = [dues.filter(({ isElapsed }) => isElapsed), dues.filter(({ isElapsed }) => !isElapsed)].flatMap(
    (some) => (some.length > 0 ? [some.reduce((one, other) => (other.at < one.at ? other : one))] : []),
  );
  return firsts.length > 0 ? { wake: firsts } : {};
}

export const isForPerson = ({ kind = "person" }: Pick<ParkedBranch, "kind">): boolean => kind === "person";

const isBefore = ({ due }: Parked, other: Parked | undefined): boolean =>
  due !== undefined && (other?.due === undefined || due.at < other.due.at);
