import type { ObjectContext } from "@restatedev/restate-sdk";
import type { ExecutionState, Transition } from "../../../engine/execution.ts";
import type { Retention } from "../../../engine/retention.ts";
import { afterTransition, isEnd } from "../../../engine/rules/transitions.ts";
import type { Take } from "../../../engine/runs/find-takes.ts";
import type { Calls, ServiceParts } from "../calls.ts";
import { enterGroup, leaveGroup } from "../groups/service.ts";
import { toIndex } from "../list/list-index.ts";
import { toMailboxKey } from "../mailbox/service.ts";
import {
  read,
  toInvocation,
  type AcceptInput,
  type BeginInput,
  type ChildStartResult,
  type Command,
  type DriveInput,
  type FoundExecution,
  type ListenInput,
  type MoveInput,
  type RegisterStatus,
  type TakeInput,
  type Watchers,
  type WatchInput,
} from "./register-state.ts";

/** Max children of an execution that are cancelled with it. */
export const maxChildren = 1_000;
/** Max replicas whose readers wait. The oldest is woken, and watches again if it still reads. */
const maxWatchers = 64;

/**
 * The changes of a register that several of its handlers make.
 *
 * K1. An execution that is suspended until a time has one scheduled call, `wake`. Any other has none. It names the epoch: a
 *     late one has no effect.
 * K2. A mailbox tells the register of new events. The register asks for a look at them: by the drive, or without one by
 *     `accept` of the drive's object.
 */
export class Moves {
  readonly #calls: Calls;
  readonly #retention: Retention;

  constructor({ calls, retention }: ServiceParts) {
    this.#calls = calls;
    this.#retention = retention;
  }

  startDrive(context: ObjectContext, input: DriveInput): Promise<string> {
    return this.#calls.send(context, "drive/run", input);
  }

  /** Makes a transition. `change` is the rest of the new status. */
  async apply(
    context: ObjectContext,
    { execution, now }: FoundExecution,
    next: Transition,
    change: Partial<RegisterStatus>,
  ): Promise<ExecutionState> {
    const state = afterTransition({ ...toBrief(now), execution }, next);
    this.unschedule(context, now);
    // Before a transition is set, which may be large.
    const timer = await this.#schedule(context, next, state.epoch);
    let { waiters = [] } = now;
    if (next.to !== "running") {
      for (const { awakeable, afterEpoch } of waiters)
        if (state.epoch > afterEpoch) context.resolveAwakeable(awakeable, state);
      waiters = waiters.filter(({ afterEpoch }) => state.epoch <= afterEpoch);
    }
    context.set("last", next);
    context.set("index", toIndex(execution, next.to, next));
    const { status, epoch, retriedBy } = state;
    const mailboxes = this.#updateMailboxes(context, now, next);
    const own = { status, epoch, waiters, retriedBy, timer, mailboxes, look: undefined };
    context.set<RegisterStatus>("status", { ...now, ...own, ...change });
    if (isEnd(next.to)) this.continueAnswer(context, now); // after the state, which the answer is continued with
    if (timer === undefined) this.expireLater(context, state); // else it continues by itself
    // A suspended execution keeps its place in its group while a step is in flight.
    const { drive } = { ...now, ...change };
    if (isEnd(next.to) || (next.to === "suspended" && drive === undefined))
      leaveGroup(this.#calls, context, execution, state.epoch);
    return state;
  }

  /** Continues an execution that has no drive. Undefined: too many wait for the concurrency of the workflow. */
  async start(
    context: ObjectContext,
    { execution: before, now }: FoundExecution,
    command: Command,
    { steps, limits, token }: Pick<MoveInput, "steps" | "limits"> & { readonly token?: string | undefined },
  ): Promise<ExecutionState | undefined> {
    const { next } = command;
    if (!(await enterGroup(this.#calls, context, before, command.epoch, limits))) return undefined;
    wakeWatchers(context, now.watchers); // who waited for the end of the suspension
    // The new drive runs on the caller's code. An existing one would continue on its own.
    const execution = steps ? { ...before, steps } : before;
    const { epoch, failsOnCrash, wasSolo } = now;
    if (steps) context.set("execution", execution);
    context.set("commands", [command]);
    const { retriedBy } = afterTransition({ ...toBrief(now), execution }, next);
    const input = { execution, epoch, commands: [command], failsOnCrash, wasSolo, retriedBy };
    const drive = await this.startDrive(context, input);
    const kept = limits && { limit: limits.limit, waiting: limits.waiting };
    const change = { token, drive, limits: kept, watchers: undefined, offers: undefined };
    return this.apply(context, { execution, now }, next, change);
  }

  /** Continues a suspended execution whose wait is over. */
  async continueBy(context: ObjectContext, found: FoundExecution, at: number, takes?: readonly Take[]): Promise<void> {
    const { limits: known, epoch } = found.now;
    const next: Transition = { at, to: "running", isWake: true };
    const limits = known && { ...known, isWake: true };
    await this.start(context, found, { epoch: epoch + 1, next, takes }, { limits });
  }

  continueAnswer(context: ObjectContext, { conversation }: Pick<RegisterStatus, "conversation">): void {
    if (conversation !== undefined) this.#calls.tell(context, "turn/ended", conversation);
  }

  /** Removes the execution later, if nothing has happened until then. `sinceMs` is the time that it has this state already. */
  expireLater(context: ObjectContext, { status, epoch }: Pick<ExecutionState, "status" | "epoch">, sinceMs = 0): void {
    const { endedMs, suspendedMs } = this.#retention;
    const keptMs = isEnd(status) ? endedMs : status === "suspended" ? suspendedMs : undefined;
    if (keptMs === undefined) return;
    this.#calls.tell(context, "register/expire", epoch, { delayMs: Math.max(0, keptMs - sinceMs) });
  }

  /** Starts a child that is cancelled with this execution: a cancel comes before or after. */
  async startChild(context: ObjectContext, input: BeginInput): Promise<ChildStartResult> {
    if (!(await read(context))) return "missing";
    const last = await context.get<Transition>("last");
    if (last && "cancellation" in last) return "cancelled";
    const children = (await context.get<string[]>("children")) ?? [];
    const { id } = input.execution;
    if (!children.includes(id)) {
      if (children.length >= maxChildren) return "many";
      context.set("children", [...children, id]);
    }
    return this.#calls.call<ChildStartResult>(context, "register/begin", input, { key: id });
  }

  /** Cancels the children, if the execution is cancelled. */
  async cancelChildren(context: ObjectContext, next: Transition, token: string): Promise<void> {
    if (!("cancellation" in next)) return;
    const input: MoveInput = { next, token };
    for (const key of (await context.get<string[]>("children")) ?? [])
      this.#calls.tell(context, "register/move", input, { key });
  }

  /** Schedules the wake of a suspension. Resolves to its invocation; undefined if no wait has a time. */
  async #schedule(context: ObjectContext, next: Transition, epoch: number): Promise<string | undefined> {
    const dueAt = wakeTimeOf(next);
    if (dueAt === undefined) return undefined;
    const delayMs = Math.max(0, dueAt - (await context.date.now()));
    return this.#calls.send(context, "register/wake", epoch, { delayMs });
  }
  unschedule(context: ObjectContext, { timer }: RegisterStatus): void {
    if (timer !== undefined) context.invocation(toInvocation(timer)).cancel();
  }

  /** Lets mailboxes tell the execution of their events, those that they have included. Returns all that know it. */
  listen(context: ObjectContext, { mailboxes: known = [] }: RegisterStatus, added: readonly string[]): string[] {
    this.#tellMailboxes(context, "wait", added);
    return [...new Set([...known, ...added])];
  }
  /** Returns the mailboxes that know the execution after a transition: none after an end, else the mailboxes of its waits. */
  #updateMailboxes(context: ObjectContext, now: RegisterStatus, next: Transition): readonly string[] | undefined {
    const { mailboxes: known = [] } = now;
    if (next.to === "running") return now.mailboxes; // it may still wait for them
    if (next.to !== "suspended") return void this.forgetMailboxes(context, now);
    if (next.pending.length === 0) return now.mailboxes; // suspended by a command: events count at the resume
    const mailboxes = [...new Set((next.events ?? []).map(toMailboxKey))];
    this.#tellMailboxes(
      context,
      "forget",
      known.filter((key) => !mailboxes.includes(key)),
    );
    this.#tellMailboxes(context, "wait", mailboxes);
    return mailboxes.length > 0 ? mailboxes : undefined;
  }
  forgetMailboxes(context: ObjectContext, { mailboxes = [] }: RegisterStatus): void {
    this.#tellMailboxes(context, "forget", mailboxes);
  }
  #tellMailboxes(context: ObjectContext, method: "wait" | "forget", keys: readonly string[]): void {
    for (const key of keys) this.#calls.tell(context, `mailbox/${method}`, context.key, { key });
  }
}

/** The handlers of a register that end waits at their time, or by an event. */
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

const toBrief = ({ status, epoch, retriedBy }: RegisterStatus) => ({ status, epoch, retriedBy });

/** The first end time of a suspension's waits. */
function wakeTimeOf(last: Transition | undefined): number | undefined {
  const { wake = [] } = last?.to === "suspended" ? last : {};
  return wake.length > 0 ? Math.min(...wake.map(({ at }) => at)) : undefined;
}

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

/** Keeps the awakeable of a reader while there is no drive. The one before it is resolved here: its reader is disconnected. */
export function keepWatcher(context: ObjectContext, watchers: Watchers | undefined, input: WatchInput): Watchers {
  const former = watchers?.awakeables.find(([replica]) => replica === input.replica);
  if (former) context.resolveAwakeable(former[1], null);
  return addWatcher(context, watchers, input);
}

/** Wakes the readers of an ending drive: it may not know all of them. */
export function wakeWatchers(context: ObjectContext, watchers: Watchers | undefined): void {
  for (const [, awakeable] of watchers?.awakeables ?? []) context.resolveAwakeable(awakeable, null);
}
