import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Transition } from "../../../engine/execution.ts";
import { isEnd } from "../../../engine/rules/transitions.ts";
import type { Calls } from "../calls.ts";
import { wakeTimeOf, type Moves } from "./moves.ts";
import {
  read,
  toInvocation,
  type AcceptInput,
  type ListenInput,
  type RegisterStatus,
  type TakeInput,
} from "./register-state.ts";

/** The handlers of a register by which waits end by themselves: at their time, or by an event. */
export function createWakeHandlers(calls: Calls, moves: Moves) {
  /** Asks for a search of the events for a suspended execution. */
  const look = (context: ObjectContext, input: AcceptInput): void => calls.tell(context, "drive/accept", input);

  return {
    async wake(context: ObjectContext, epoch: number): Promise<void> {
      const found = await read(context);
      if (found?.now.status !== "suspended" || found.now.epoch !== epoch) return;
      const last = await context.get<Transition>("last");
      // Restate's clock may be ahead of this replica's.
      const at = Math.max(await context.date.now(), wakeTimeOf(last ?? undefined) ?? 0);
      await moves.continueBy(context, { ...found, now: { ...found.now, timer: undefined } }, at);
    },

    /** A mailbox has events that the execution may wait for. */
    async offer(context: ObjectContext): Promise<void> {
      const found = await read(context);
      if (!found) return;
      const { execution, now } = found;
      const { drive, status, epoch, offers = 0 } = now;
      if (drive !== undefined && status === "running") {
        context
          .invocation(toInvocation(drive))
          .signal<null>(`e${offers + 1}`)
          .resolve(null);
        return context.set<RegisterStatus>("status", { ...now, offers: offers + 1 });
      }
      const last = await context.get<Transition>("last");
      if (drive !== undefined || last?.to !== "suspended" || !last.events) return;
      const isAsked = now.look !== undefined;
      context.set<RegisterStatus>("status", { ...now, look: isAsked ? "again" : "asked" });
      if (!isAsked) look(context, { execution, epoch });
    },

    /** The events that a suspended execution takes. */
    async take(context: ObjectContext, { epoch, at, takes, isChanged }: TakeInput): Promise<void> {
      const found = await read(context);
      if (found?.now.status !== "suspended" || found.now.epoch !== epoch) return;
      if (takes.length > 0 || isChanged) return moves.continueBy(context, found, at, takes);
      const { execution, now } = found;
      const hasMore = now.look === "again";
      context.set<RegisterStatus>("status", { ...now, look: hasMore ? "asked" : undefined });
      if (hasMore) look(context, { execution, epoch });
    },

    /** Branches of a running execution wait for events. */
    async listen(context: ObjectContext, { drive, mailboxes }: ListenInput): Promise<void> {
      const now = await context.get<RegisterStatus>("status");
      if (now?.drive !== drive || isEnd(now.status)) return;
      context.set<RegisterStatus>("status", { ...now, mailboxes: moves.listen(context, now, mailboxes) });
    },
  };
}
