import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Watchers, WatchInput } from "./register-state.ts";

/** Max replicas whose readers wait. The oldest is woken, and watches again if it still reads. */
const maxWatchers = 64;

/** A replica waits with one awakeable at a time: its last one replaces the one before, which the drive has resolved. */
export function addWatcher(
  context: ObjectContext,
  watchers: Watchers | undefined,
  { replica, awakeable }: WatchInput,
): Watchers {
  const { count, awakeables } = watchers ?? { count: 0, awakeables: [] };
  const next = [...awakeables.filter(([one]) => one !== replica), [replica, awakeable] as const];
  for (const [, oldest] of next.splice(0, next.length - maxWatchers)) context.resolveAwakeable(oldest, null);
  return { count: count + 1, awakeables: next };
}

/** Keeps the awakeable of a reader while there is no drive. The one before it is resolved here: its reader has left. */
export function keepWatcher(context: ObjectContext, watchers: Watchers | undefined, input: WatchInput): Watchers {
  const former = watchers?.awakeables.find(([replica]) => replica === input.replica);
  if (former) context.resolveAwakeable(former[1], null);
  return addWatcher(context, watchers, input);
}

/** Wakes the readers of a drive that ends: it may not have heard of all of them. */
export function wakeWatchers(context: ObjectContext, watchers: Watchers | undefined): void {
  for (const [, awakeable] of watchers?.awakeables ?? []) context.resolveAwakeable(awakeable, null);
}
