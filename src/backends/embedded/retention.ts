import type { Clock, ClockTimer } from "../../core/clock.ts";
import type { Retention } from "../../engine/retention.ts";
import { toDay, usageDays } from "../../engine/contract/usage.ts";
import type { Store } from "./store/store.ts";
import type { SweepResult } from "./store/stored-state.ts";
import type { Writer } from "./store/writer.ts";

export interface RetentionParts {
  readonly store: Store;
  readonly writer: Writer;
  readonly clock: Clock;
  /** True if an execution is driven by this process, also if it is suspended. */
  readonly isDriven: (id: string) => boolean;
  /** True if a conversation has a turn that runs or waits, by its key. */
  readonly isBusy: (key: string) => boolean;
  /** Called when a suspended execution was removed. */
  readonly onRemoved: (id: string) => void;
}

/** Removes executions, events, conversations and usage whose retention is over, a few at a time. Returns the stop. */
export function startRetention(retention: Retention, parts: RetentionParts): () => void {
  const { endedMs, suspendedMs, conversationsMs, eventsMs } = retention;
  const { store, writer, clock, isDriven, isBusy, onRemoved } = parts;
  const shortestMs = Math.min(endedMs ?? Infinity, suspendedMs ?? Infinity, conversationsMs ?? Infinity, eventsMs);
  const pauseMs = Math.min(60_000, Math.max(250, shortestMs / 10));
  // A clock that is wrong for a moment must not remove everything.
  const steadyTime = createSteadyClock({ clock, toleranceMs: pauseMs, confirmMs: Math.min(3_600_000, shortestMs) });
  let stopped = false;
  let timer: ClockTimer | undefined;
  const wait = (ms: number, next: () => void): void => {
    if (!stopped) timer = clock.setTimeout(next, ms, { isLazy: true }).unref();
  };
  const again = (): void => wait(pauseMs, () => sweep(0, steadyTime()));

  function sweep(after: number, now: number): void {
    const before = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : now - ms);
    const expiry = { now, ended: before(endedMs), suspended: before(suspendedMs), isDriven };
    writer.write<SweepResult & { hasOthers: boolean }>({
      work: () => {
        const hasEvents = store.sentEvents.removeBefore(now - eventsMs, atOnce) === atOnce;
        const hasConversations = sweepConversations(before(conversationsMs), now);
        const hasUsage = store.usage.removeBefore(toDay(now) - usageDays, atOnce) === atOnce;
        return { ...store.sweep(after, expiry, atOnce), hasOthers: hasEvents || hasConversations || hasUsage };
      },
      done: ({ next, waited, hasOthers }) => {
        waited.forEach(onRemoved);
        if (next === undefined && !hasOthers) again();
        else wait(0, () => sweep(next ?? after, now));
      },
      fail: again,
      stalled: () => {
        again();
        return true;
      },
    });
  }

  /** Removes some messages of expired conversations, and of those with an interrupted deletion. True if there are more. */
  function sweepConversations(before: number | undefined, now: number): boolean {
    const { conversations } = store;
    const expired = before === undefined ? [] : conversations.expired(before, atOnce);
    for (const key of expired.filter((one) => !isBusy(one))) {
      conversations.hide(key);
      store.usage.release(key, toDay(now));
    }
    const hidden = conversations.hidden();
    return hidden !== undefined && (!conversations.purge(hidden) || conversations.hidden() !== undefined);
  }

  sweep(0, steadyTime());
  return () => {
    stopped = true;
    clock.clearTimeout(timer);
  };
}

/** The executions of one transaction: few, so that requests do not notice. */
const atOnce = 100;

interface SteadyClockOptions {
  readonly clock: Clock;
  /** A difference to the monotonic clock that is followed at once. Larger ones are jumps. */
  readonly toleranceMs: number;
  /** The time after which a jump counts. A clock that jumps back before has no effect. */
  readonly confirmMs: number;
}

/** The time of the wall clock, in which a jump counts only once it has lasted. */
function createSteadyClock({ clock, toleranceMs, confirmMs }: SteadyClockOptions): () => number {
  let offset = clock.now() - clock.monotonic();
  let jump: { readonly offset: number; readonly since: number } | undefined;
  return () => {
    const elapsed = clock.monotonic();
    const found = clock.now() - elapsed;
    const isNear = (other: number): boolean => Math.abs(found - other) <= toleranceMs;
    if (!isNear(offset) && (!jump || !isNear(jump.offset))) jump = { offset: found, since: elapsed };
    if (isNear(offset) || elapsed - jump!.since >= confirmMs) {
      offset = found;
      jump = undefined;
    }
    return elapsed + offset;
  };
}
