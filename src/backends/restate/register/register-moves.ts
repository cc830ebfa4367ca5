import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Retention } from "../../../engine/retention.ts";
import type { ExecutionState, Transition } from "../../../engine/execution.ts";
import type { Take } from "../../../engine/runs/find-takes.ts";
import type { Calls } from "../calls.ts";
import { createGroupCalls } from "../groups/service.ts";
import { toIndex } from "../list/list-index.ts";
import type { FoundExecution } from "./read-register.ts";
import type { Command, DriveInput, MoveInput, RegisterStatus } from "./register-state.ts";
import type { RestateSdk } from "../sdk.ts";
import { wakeWatchers } from "./watchers.ts";
import { afterTransition, isEnd } from "../../../engine/rules/transitions.ts";
import type { Waits } from "./register-waits.ts";

interface MoveParts {
  readonly sdk: RestateSdk;
  readonly calls: Calls;
  readonly retention: Retention;
  readonly waits: Waits;
}
interface Moves {
  startDrive(context: ObjectContext, input: DriveInput): Promise<string>;
  apply(
    context: ObjectContext,
    found: FoundExecution,
    next: Transition,
    change: Partial<RegisterStatus>,
  ): Promise<ExecutionState>;
  start(
    context: ObjectContext,
    found: FoundExecution,
    command: Command,
    how: StartInput,
  ): Promise<ExecutionState | undefined>;
  continueBy(context: ObjectContext, found: FoundExecution, at: number, takes?: readonly Take[]): Promise<void>;
  continueAnswer(context: ObjectContext, status: Pick<RegisterStatus, "conversation">): void;
  expireLater(context: ObjectContext, state: Pick<ExecutionState, "status" | "epoch">, sinceMs?: number): void;
}
type StartInput = Pick<MoveInput, "steps" | "limits"> & { readonly token?: string | undefined };

/** The changes of a register that several of its handlers make. */
export function createMoves(parts: MoveParts): Moves {
  const { calls, retention, waits } = parts;
  const group = createGroupCalls(parts);

  const startDrive = (context: ObjectContext, input: DriveInput): Promise<string> =>
    calls.send(context, "drive/run", input);

  /** Makes a transition. `change` is the rest of the new status. */
  async function apply(
    context: ObjectContext,
    { execution, now }: FoundExecution,
    next: Transition,
    change: Partial<RegisterStatus>,
  ): Promise<ExecutionState> {
    const state = afterTransition({ ...toBrief(now), execution }, next);
    waits.unschedule(context, now);
    // Before a transition is set, which may be large.
    const timer = await waits.schedule(context, next, state.epoch);
    let { waiters = [] } = now;
    if (next.to !== "running") {
      for (const { awakeable, afterEpoch } of waiters)
        if (state.epoch > afterEpoch) context.resolveAwakeable(awakeable, state);
      waiters = waiters.filter(({ afterEpoch }) => state.epoch <= afterEpoch);
    }
    context.set("last", next);
    context.set("index", toIndex(execution, next.to, next));
    const { status, epoch, retriedBy } = state;
    const mailboxes = waits.move(context, now, next);
    const own = { status, epoch, waiters, retriedBy, timer, mailboxes, look: undefined };
    context.set<RegisterStatus>("status", { ...now, ...own, ...change });
    if (isEnd(next.to)) continueAnswer(context, now); // after the state, which the answer is continued with
    if (timer === undefined) expireLater(context, state); // else it continues by itself
    // A suspended execution keeps its place in its group while a step is in flight.
    const { drive } = { ...now, ...change };
    if (isEnd(next.to) || (next.to === "suspended" && drive === undefined))
      group.leave(context, execution, state.epoch);
    return state;
  }
  /** Continues an execution that has no drive. Undefined: too many wait for the concurrency of the workflow. */
  async function start(
    context: ObjectContext,
    { execution: before, now }: FoundExecution,
    command: Command,
    { steps, limits, token }: Pick<MoveInput, "steps" | "limits"> & { token?: string | undefined },
  ): Promise<ExecutionState | undefined> {
    const { next } = command;
    if (!(await group.enter(context, before, command.epoch, limits))) return undefined;
    wakeWatchers(context, now.watchers); // those that waited for the end of a suspension
    // The new drive runs on the code of the caller; a drive that exists continues on its own.
    const execution = steps ? { ...before, steps } : before;
    const { epoch, failsOnCrash, wasSolo } = now;
    if (steps) context.set("execution", execution);
    context.set("commands", [command]);
    const { retriedBy } = afterTransition({ ...toBrief(now), execution }, next);
    const drive = await startDrive(context, {
      execution,
      epoch,
      commands: [command],
      failsOnCrash,
      wasSolo,
      retriedBy,
    });
    const kept = limits && { limit: limits.limit, waiting: limits.waiting };
    const change = { token, drive, limits: kept, watchers: undefined, offers: undefined };
    return apply(context, { execution, now }, next, change);
  }
  /** Continues a suspended execution whose wait has ended by itself. */
  async function continueBy(
    context: ObjectContext,
    found: FoundExecution,
    at: number,
    takes?: readonly Take[],
  ): Promise<void> {
    const { limits: known, epoch } = found.now;
    const next: Transition = { at, to: "running", isWake: true };
    const limits = known && { ...known, isWake: true };
    await start(context, found, { epoch: epoch + 1, next, takes }, { limits });
  }

  /** Continues the answer that waits for the execution, if there is one. */
  function continueAnswer(context: ObjectContext, { conversation }: Pick<RegisterStatus, "conversation">): void {
    if (conversation === undefined) return;
    calls.tell(context, "turn/ended", conversation);
  }

  /** Removes the execution later, if nothing has happened until then. `sinceMs` is the time that it has this state already. */
  function expireLater(
    context: ObjectContext,
    { status, epoch }: Pick<ExecutionState, "status" | "epoch">,
    sinceMs = 0,
  ): void {
    const keptMs = isEnd(status) ? retention.endedMs : status === "suspended" ? retention.suspendedMs : undefined;
    if (keptMs === undefined) return;
    calls.tell(context, "register/expire", epoch, { delayMs: Math.max(0, keptMs - sinceMs) });
  }
  return { startDrive, apply, start, continueBy, continueAnswer, expireLater };
}

const toBrief = ({ status, epoch, retriedBy }: RegisterStatus) => ({ status, epoch, retriedBy });
