import type { ObjectContext, ObjectSharedContext } from "@restatedev/restate-sdk";
import { isRetry, type Execution, type ExecutionState, type Transition } from "../../../engine/execution.ts";
import { forever, objectOptions, reading, type ObjectService } from "../calls.ts";
import { createAdoption, hasEndedSolo, readOrAdopt } from "../former/solo.ts";
import { enterGroup, leaveGroup } from "../groups/service.ts";
import { toIndex } from "../list/list-index.ts";
import { toListed } from "../list/listed-state.ts";
import { crashHandlers } from "./register-crashes.ts";
import {
  read,
  toInvocation,
  toState,
  type BeginInput,
  type Brief,
  type ChildStartResult,
  type Command,
  type DriveRequest,
  type MoveInput,
  type MoveResult,
  type RedriveInput,
  type RegisterStatus,
  type RescueInput,
  type SettleInput,
  type WaitInput,
  type WatchInput,
} from "./register-state.ts";
import type { ReplicaServiceParts } from "../replica.ts";
import { addWatcher, createWakeHandlers, keepWatcher, Moves, wakeWatchers } from "./moves.ts";
import { isEnd, isLegal } from "../../../engine/rules/transitions.ts";

/** Max commands not stored by a drive yet. Further ones are refused, except an end. */
const maxCommands = 64;
/** The time in which the count of a crash may be sent again. */
const repeatMs = 60_000;
/** Max waiting callers. Beyond it the oldest one is asked to retry. */
const maxWaiters = 256;

/**
 * The register of one execution: the only place where its status changes.
 *
 * H1. Its exclusive handlers are short and run one at a time, in the whole cluster: each is a compare-and-set.
 * H2. An execution has at most one drive. While it has one, commands are sent to it as the signal `t<epoch>`, and kept until
 *     the drive has stored them.
 * H3. A drive ends by a transition of its own, by `leave`, after the end of the execution, or by handing over with `redrive`.
 *     All are changes here. Requests of any other drive are refused.
 * H4. A drive never calls a handler here, it only sends. To kill an invocation is to kill its calls, and a call that is
 *     killed may have made one half of its changes.
 */
export function createRegister(parts: ReplicaServiceParts): ObjectService {
  const { sdk, calls, object, reads, host } = parts;
  const { exclusive, shared } = sdk.handlers.object;
  const moves = new Moves(parts);

  return object("register", objectOptions, {
    /** Starts an execution. Resolves to false when there is one with this id already. */
    async begin(context, { execution, token, failsOnCrash, copies, limits }: BeginInput): Promise<boolean | "full"> {
      const now = await context.get<RegisterStatus>("status");
      if (now) return now.token === token;
      if (!(await enterGroup(calls, context, execution, 0, limits))) return "full";
      context.set("execution", execution);
      context.set("index", toIndex(execution, "running"));
      const first = { execution, isNew: true, epoch: 0, commands: [], failsOnCrash, copies };
      const drive = await moves.startDrive(context, first);
      context.set<RegisterStatus>("status", { status: "running", epoch: 0, drive, token, failsOnCrash, limits });
      return true;
    },

    /** Starts a child. Do not rename `bear` or `obeyed`: other builds call them. */
    bear: (context, input: BeginInput): Promise<ChildStartResult> => moves.startChild(context, input),

    /** Makes the transition of a command. */
    async move(context, input: MoveInput): Promise<MoveResult> {
      const { next, epoch, token, branch } = input;
      const found = await read(context);
      if (!found) return { isMissing: true };
      const { now } = found;
      if (token === now.token) return { state: (await toState(context)) ?? undefined };
      if (epoch !== undefined && epoch !== now.epoch && !(await isParked(context, branch))) return {};
      const last = isRetry(next) ? await context.get<Transition>("last") : undefined;
      if (!isLegal({ ...now, last: last ?? undefined }, next)) return {};
      const command: Command = { epoch: now.epoch + 1, next };
      await moves.cancelChildren(context, next, token);
      if (now.drive !== undefined) {
        const commands = (await context.get<Command[]>("commands")) ?? [];
        if (commands.length >= maxCommands && !isEnd(next.to)) return { isBusy: true };
        context.invocation(toInvocation(now.drive)).signal<Transition>(`t${command.epoch}`).resolve(next);
        context.set("commands", [...commands, command]);
        if (isEnd(next.to)) wakeWatchers(context, now.watchers); // the drive ends without another word
        return { state: await moves.apply(context, found, next, { token }) };
      }
      if (next.to === "running") {
        const state = await moves.start(context, found, command, input);
        return state ? { state } : { isFull: true };
      }
      wakeWatchers(context, now.watchers); // those that waited for the end of a suspension
      calls.tell(context, "drive/note", command);
      return { state: await moves.apply(context, found, next, { token }) };
    },

    /** Makes a transition of the drive, which ends after it. */
    async settle(context, { next, epoch, drive, reply, solo }: SettleInput): Promise<void> {
      const found = await readOrAdopt(context, drive, solo);
      const isFirst = found !== undefined && isCurrent(found.now, { drive, epoch });
      if (isFirst) {
        context.clear("commands");
        wakeWatchers(context, found.now.watchers);
        await moves.apply(context, found, next, { drive: undefined, watchers: undefined, offers: undefined });
      }
      context.resolveAwakeable(reply, isFirst);
    },

    /** A drive with nothing in flight asks to end. False: a command is on its way to it. */
    async leave(context, { drive, epoch, reply }: DriveRequest): Promise<void> {
      const now = await context.get<RegisterStatus>("status");
      const mayLeave = !now || isCurrent(now, { drive, epoch });
      if (now && mayLeave) {
        context.clear("commands");
        wakeWatchers(context, now.watchers);
        context.set<RegisterStatus>("status", { ...now, drive: undefined, watchers: undefined, offers: undefined });
        const execution = await context.get<Execution>("execution");
        if (execution) leaveGroup(calls, context, execution, now.epoch);
      }
      context.resolveAwakeable(reply, mayLeave);
    },

    /** The drive has stored the commands up to an epoch. */
    async obeyed(context, { drive, epoch }: Omit<DriveRequest, "reply">): Promise<void> {
      const now = await context.get<RegisterStatus>("status");
      if (now?.drive !== drive) return;
      const commands = (await context.get<Command[]>("commands")) ?? [];
      context.set(
        "commands",
        commands.filter((command) => command.epoch > epoch),
      );
    },

    /** Starts another drive from the rows, in place of one that hands over or was killed. */
    async redrive(context, { gone, cause, steps, solo }: RedriveInput): Promise<void> {
      const found = await readOrAdopt(context, gone, solo);
      if (!found) return;
      const { now } = found;
      // It made its transition, and was killed before its row was stored.
      if (now.drive === undefined) return calls.tell(context, "drive/finish", now.epoch);
      if (now.drive !== gone) return;
      const execution = steps ? { ...found.execution, steps } : found.execution;
      if (steps) context.set("execution", execution);
      const commands = (await context.get<Command[]>("commands")) ?? [];
      const epoch = (commands[0]?.epoch ?? now.epoch + 1) - 1;
      const { failsOnCrash, wasSolo, retriedBy } = now;
      const next = { execution, epoch, commands, cause, failsOnCrash, wasSolo, retriedBy };
      const drive = await moves.startDrive(context, next);
      wakeWatchers(context, now.watchers);
      context.set<RegisterStatus>("status", { ...now, drive, watchers: undefined, offers: undefined });
    },

    /** An answer of a conversation waits for the end. */
    async expect(context, conversation: string): Promise<void> {
      const now = await context.get<RegisterStatus>("status");
      if (now) context.set<RegisterStatus>("status", { ...now, conversation });
      if (!now || isEnd(now.status)) moves.continueAnswer(context, { conversation });
    },

    /** Keeps the awakeable of a caller until the next suspension or end. Null: it asks again, or there is no register. */
    async wait(context, input: WaitInput): Promise<void> {
      const now = await context.get<RegisterStatus>("status");
      if (!now) return context.resolveAwakeable(input.awakeable, null);
      if (now.status !== "running" && now.epoch > input.afterEpoch)
        return context.resolveAwakeable(input.awakeable, await toState(context));
      const waiters = [...(now.waiters ?? []), input];
      for (const { awakeable } of waiters.splice(0, waiters.length - maxWaiters))
        context.resolveAwakeable(awakeable, null);
      context.set<RegisterStatus>("status", { ...now, waiters });
    },

    /**
     * Hands the awakeable of a reader to the drive. Without one it is resolved at once: the rows are complete, or soon are. A
     * reader with all rows of a suspension waits here.
     */
    async watch(context, input: WatchInput): Promise<void> {
      const now = await context.get<RegisterStatus>("status");
      const isIdle = now?.status === "suspended" && now.drive === undefined && now.epoch === input.suspendedEpoch;
      if (isIdle)
        return context.set<RegisterStatus>("status", { ...now, watchers: keepWatcher(context, now.watchers, input) });
      if (now?.drive === undefined || isEnd(now.status)) return context.resolveAwakeable(input.awakeable, null);
      const watchers = addWatcher(context, now.watchers, input);
      context.invocation(toInvocation(now.drive)).signal<WatchInput>(`w${watchers.count}`).resolve(input);
      context.set<RegisterStatus>("status", { ...now, watchers });
    },

    /** Removes the execution at the end of its retention, if nothing has happened since. */
    async expire(context, epoch: number): Promise<void> {
      const now = await context.get<RegisterStatus>("status");
      if (now?.epoch !== epoch) return;
      // A step is still in flight. After an end its drive is not waited for: it is ahead in the queue of its object.
      if (now.drive !== undefined && !isEnd(now.status)) return moves.expireLater(context, now);
      wakeWatchers(context, now.watchers);
      moves.unschedule(context, now);
      moves.forgetMailboxes(context, now);
      context.clearAll();
      calls.tell(context, "drive/clear", null);
      moves.continueAnswer(context, now); // it may have been suspended
    },

    ...Object.fromEntries(
      Object.entries(crashHandlers).map(([name, count]) => [
        name,
        exclusive({ idempotencyRetention: repeatMs }, count),
      ]),
    ),
    ...createWakeHandlers(calls, moves),
    /**
     * Ends a drive that cannot continue, and starts another one from the rows. As a handler it is completed on any replica:
     * a crash after the end of the old drive must not leave the execution without a new one.
     */
    rescue: shared(
      { enableLazyState: true, retryPolicy: { ...forever, initialInterval: 250, maxInterval: 10_000 } },
      async (context: ObjectSharedContext, input: RescueInput): Promise<void> => {
        const isEnded = await context.run("end", () => host.interruptions.endDrive(input));
        if (!isEnded || (await hasEndedSolo(context, calls, input))) return;
        const next: RedriveInput = { ...input, cause: input.cause === "journal" ? "code" : input.cause };
        calls.tell(context, "register/redrive", next);
      },
    ),
    ...createAdoption(moves),

    state: reads(toState),

    listed: reads(async (context): Promise<ExecutionState | null> => {
      const state = await toState(context);
      return state && toListed(state);
    }),

    brief: shared(
      { ...reading, enableLazyState: true },
      async (context: ObjectSharedContext): Promise<Brief | null> => {
        const now = await context.get<RegisterStatus>("status");
        return now && { status: now.status, epoch: now.epoch, isDriven: now.drive !== undefined };
      },
    ),
  });
}

/** Returns true if a branch of the suspension waits, by the key of its wake. */
async function isParked(context: ObjectContext, branch: string | undefined): Promise<boolean> {
  const last = await context.get<Transition>("last");
  if (branch === undefined || last?.to !== "suspended") return false;
  return last.pending.some(({ key }) => key === branch);
}
const isCurrent = (now: RegisterStatus, { drive, epoch }: Pick<DriveRequest, "drive" | "epoch">): boolean =>
  now.drive === drive && now.epoch === epoch;
