import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Transition } from "../../../engine/execution.ts";
import type { Take } from "../../../engine/runs/find-takes.ts";
import type { Calls } from "../calls.ts";
import { read, toInvocation, type FoundExecution } from "./read-register.ts";
import type { AcceptInput, ListenInput, RegisterStatus, TakeInput } from "./register-state.ts";
import { wakeTimeOf, type Waits } from "./register-waits.ts";
import { isEnd } from "../../../engine/rules/transitions.ts";

interface WakeParts {
  readonly calls: Calls;
  readonly waits: Waits;
  /** Continues a suspended execution whose wait has ended by itself. */
  readonly continueBy: (
    context: ObjectContext,
    found: FoundExecution,
    at: number,
    takes?: readonly Take[],
  ) => Promise<void>;
}
interface WakeHandlers {
  wake(context: ObjectContext, epoch: number): Promise<void>;
  offer(context: ObjectContext): Promise<void>;
  take(context: ObjectContext, input: TakeInput): Promise<void>;
  listen(context: ObjectContext, input: ListenInput): Promise<void>;
}

/** The handlers of a register by which waits end by themselves: at their time, or by an event. */
export function createWakeHandlers({ calls, waits, continueBy }: WakeParts): WakeHandlers {
  /** Asks for a look at the events for a suspended execution. */
  const look = (context: ObjectContext, input: AcceptInput): void => calls.tell(context, "drive/accept", input);

  return {
    /** The time of a suspended execution has come. */
    async wake(context: ObjectContext, epoch: number): Promise<void> {
      const found = await read(context);
      if (found?.now.status !== "suspended" || found.now.epoch !== epoch) return;
      const last = await context.get<Transition>("last");
      // Restate's clock may be ahead of that of this replica.
      const at = Math.max(await context.date.now(), wakeTimeOf(last ?? undefined) ?? 0);
      await continueBy(context, { ...found, now: { ...found.now, timer: undefined } }, at);
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
      if (takes.length > 0 || isChanged) return continueBy(context, found, at, takes);
      const { execution, now } = found;
      const hasMore = now.look === "again";
      context.set<RegisterStatus>("status", { ...now, look: hasMore ? "asked" : undefined });
      if (hasMore) look(context, { execution, epoch });
    },

    /** Branches of a running execution wait for events. */
    async listen(context: ObjectContext, { drive, mailboxes }: ListenInput): Promise<void> {
      const now = await context.get<RegisterStatus>("status");
      if (now?.drive !== drive || isEnd(now.status)) return;
      context.set<RegisterStatus>("status", { ...now, mailboxes: waits.listen(context, now, mailboxes) });
    },
  };
}
