import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Transition } from "../../../engine/execution.ts";
import type { Calls } from "../calls.ts";
import { toMailboxKey } from "../mailbox/mailbox-key.ts";
import { toInvocation } from "./read-register.ts";
import type { RegisterStatus } from "./register-state.ts";

/** The part of a register that lets an execution wait for a time or an event. */
export interface Waits {
  /** Schedules the wake of a suspension. Resolves to its invocation; undefined if no wait has a time. */
  schedule(context: ObjectContext, next: Transition, epoch: number): Promise<string | undefined>;
  /** Removes the scheduled wake. */
  unschedule(context: ObjectContext, now: RegisterStatus): void;
  /** Lets mailboxes tell the execution of their events, those that they have included. Returns all that know it. */
  listen(context: ObjectContext, now: RegisterStatus, mailboxes: readonly string[]): readonly string[];
  /** A transition is made. Returns the mailboxes that know the execution: after an end none, else those of its waits. */
  move(context: ObjectContext, now: RegisterStatus, next: Transition): readonly string[] | undefined;
  /** Lets all mailboxes forget the execution. */
  forget(context: ObjectContext, now: RegisterStatus): void;
}

/**
 * K1. An execution that is suspended until a time has one scheduled call of `wake`, any other has none. It names the epoch: a
 *     late one has no effect.
 * K2. A mailbox tells the register of new events. The register asks for a look at them: by the drive, or without one by
 *     `accept` of the drive's object.
 */
export function createWaits({ calls }: { calls: Calls }): Waits {
  const tellMailbox = (context: ObjectContext, key: string, method: "wait" | "forget"): void =>
    calls.tell(context, `mailbox/${method}`, context.key, { key });

  const waits: Waits = {
    async schedule(context, next, epoch) {
      const dueAt = wakeTimeOf(next);
      if (dueAt === undefined) return undefined;
      const delayMs = Math.max(0, dueAt - (await context.date.now()));
      return calls.send(context, "register/wake", epoch, { delayMs });
    },
    unschedule(context, { timer }) {
      if (timer !== undefined) context.invocation(toInvocation(timer)).cancel();
    },
    listen(context, { mailboxes: known = [] }, mailboxes) {
      for (const key of mailboxes) tellMailbox(context, key, "wait");
      return [...new Set([...known, ...mailboxes])];
    },
    move(context, now, next) {
      const { mailboxes: known = [] } = now;
      if (next.to === "running") return now.mailboxes; // it may still wait for them
      if (next.to !== "suspended") return void waits.forget(context, now);
      if (next.pending.length === 0) return now.mailboxes; // from outside: they count at the resume
      const mailboxes = [...new Set((next.events ?? []).map(toMailboxKey))];
      for (const key of known) if (!mailboxes.includes(key)) tellMailbox(context, key, "forget");
      for (const key of mailboxes) tellMailbox(context, key, "wait");
      return mailboxes.length > 0 ? mailboxes : undefined;
    },
    forget(context, { mailboxes = [] }) {
      for (const key of mailboxes) tellMailbox(context, key, "forget");
    },
  };
  return waits;
}

/** The first time at which a wait of a suspension ends by itself. */
export function wakeTimeOf(last: Transition | undefined): number | undefined {
  const { wake = [] } = last?.to === "suspended" ? last : {};
  return wake.length > 0 ? Math.min(...wake.map(({ at }) => at)) : undefined;
}
