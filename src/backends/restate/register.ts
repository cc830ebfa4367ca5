import type {
  InvocationId,
  ObjectContext,
  ObjectSharedContext,
  VirtualObjectDefinition,
} from "@restatedev/restate-sdk";
import type { Execution, ExecutionState, ExecutionStatus, Transition } from "../../engine/execution.ts";
import { reading, type Calls, type ServiceNames } from "./calls.ts";
import { toIndex } from "./list.ts";
import { toListed } from "./listed-state.ts";
import type {
  BeginInput,
  Brief,
  Command,
  DriveInput,
  MoveInput,
  MoveResult,
  RedriveInput,
  RegisterStatus,
  WaitInput,
  WatchInput,
} from "./register-state.ts";
import type { Retention } from "../../engine/retention.ts";
import type { RestateSdk } from "./sdk.ts";

export interface RegisterParts {
  readonly sdk: RestateSdk;
  readonly names: ServiceNames;
  readonly calls: Calls;
  readonly retention: Retention;
}

/**
 * The register of one execution: the only place where its status changes.
 *
 * G1. Its exclusive handlers are short and run one at a time, in the whole cluster: each is a compare-and-set.
 * G2. An execution has at most one drive. While it has one, commands are sent to it as the signal `t<epoch>`.
 * G3. A drive ends by a transition of its own, by `leave`, or after the end of the execution. All three are changes here.
 */
export function createRegister({
  sdk,
  names,
  calls,
  retention,
}: RegisterParts): VirtualObjectDefinition<string, unknown> {
  const { shared } = sdk.handlers.object;

  const startDrive = (context: ObjectContext, input: DriveInput): Promise<InvocationId> =>
    calls.send(context, { service: names.drive, key: context.key, method: "run" }, input);

  return sdk.object({
    name: names.register,
    options: {
      journalRetention: 0,
      idempotencyRetention: 0,
      retryPolicy: { initialInterval: 50, maxInterval: 1000 },
    },
    handlers: {
      /** Starts an execution. Resolves to false when there is one with this id already. */
      async begin(context: ObjectContext, { execution, token, failsOnCrash }: BeginInput): Promise<boolean> {
        const now = await context.get<RegisterStatus>("status");
        if (now) return now.token === token;
        context.set("execution", execution);
        context.set("index", toIndex(execution, "running"));
        const drive = await startDrive(context, { execution, commands: [], failsOnCrash });
        context.set<RegisterStatus>("status", { status: "running", epoch: 0, drive, token, failsOnCrash });
        return true;
      },

      async move(context: ObjectContext, { next, epoch, token, byDrive, steps }: MoveInput): Promise<MoveResult> {
        const found = await read(context);
        if (!found) return { moved: false };
        const { now } = found;
        if (token !== undefined && token === now.token) return { moved: true, state: (await toState(context))! };
        if (!legalFrom[next.to].includes(now.status) || (epoch !== undefined && epoch !== now.epoch))
          return { moved: false };
        const execution = steps ? { ...found.execution, steps } : found.execution;
        const state: ExecutionState = { execution, status: next.to, epoch: now.epoch + 1, last: next };
        const command: Command = { epoch: state.epoch, next };
        let { drive, waiters = [], watchers } = now;
        let commands: readonly Command[] = [];
        if (byDrive) {
          drive = undefined;
        } else if (drive !== undefined) {
          context
            .invocation(drive as InvocationId)
            .signal<Transition>(`t${state.epoch}`)
            .resolve(next);
          commands = [...((await context.get<Command[]>("commands")) ?? []), command];
        } else if (next.to === "running") {
          const { failsOnCrash } = now;
          commands = [command];
          drive = await startDrive(context, { execution, commands, failsOnCrash });
          watchers = 0;
        } else {
          await calls.send(context, { service: names.drive, key: context.key, method: "note" }, command);
        }
        if (next.to !== "running") {
          for (const { awakeable, afterEpoch } of waiters)
            if (state.epoch > afterEpoch) context.resolveAwakeable(awakeable, state);
          waiters = waiters.filter(({ afterEpoch }) => state.epoch <= afterEpoch);
        }
        if (steps) context.set("execution", execution);
        if (commands.length > 0) context.set("commands", commands);
        else context.clear("commands");
        context.set("last", next);
        context.set("index", toIndex(execution, next.to));
        context.set<RegisterStatus>("status", {
          ...now,
          status: next.to,
          epoch: state.epoch,
          drive,
          waiters,
          watchers,
          token,
        });
        const keptMs = isEnd(next.to) ? retention.endedMs : next.to === "suspended" ? retention.suspendedMs : undefined;
        if (keptMs !== undefined)
          await calls.send(context, { ...self(context), method: "expire" }, state.epoch, keptMs);
        return byDrive ? { moved: true } : { moved: true, state };
      },

      /** A drive with nothing in flight asks to end. False: a command is on its way to it. */
      async leave(context: ObjectContext, epoch: number): Promise<boolean> {
        const now = await context.get<RegisterStatus>("status");
        if (!now) return true;
        if (now.epoch !== epoch) return false;
        context.set<RegisterStatus>("status", { ...now, drive: undefined });
        context.clear("commands");
        return true;
      },

      /** Starts another drive from the rows, in place of one that was killed because its code is gone. */
      async redrive(context: ObjectContext, { gone, isInterrupted }: RedriveInput): Promise<boolean> {
        const found = await read(context);
        if (found?.now.drive !== gone) return false;
        const { execution, now } = found;
        const commands = (await context.get<Command[]>("commands")) ?? [];
        const { failsOnCrash } = now;
        const drive = await startDrive(context, { execution, commands, isRescue: true, isInterrupted, failsOnCrash });
        context.set<RegisterStatus>("status", { ...now, drive, watchers: 0 });
        return true;
      },

      /** Keeps the awakeable of a caller until the next suspension or end. */
      async wait(context: ObjectContext, input: WaitInput): Promise<void> {
        const now = await context.get<RegisterStatus>("status");
        if (!now) return context.rejectAwakeable(input.awakeable, "The execution does not exist");
        if (now.status !== "running" && now.epoch > input.afterEpoch)
          return context.resolveAwakeable(input.awakeable, await toState(context));
        context.set<RegisterStatus>("status", { ...now, waiters: [...(now.waiters ?? []), input] });
      },

      /** Hands the awakeable of a reader to the drive. Without one it is resolved at once: the rows are complete, or soon are. */
      async watch(context: ObjectContext, input: WatchInput): Promise<void> {
        const now = await context.get<RegisterStatus>("status");
        if (now?.drive === undefined) return context.resolveAwakeable(input.awakeable, null);
        const watchers = (now.watchers ?? 0) + 1;
        context
          .invocation(now.drive as InvocationId)
          .signal<WatchInput>(`w${watchers}`)
          .resolve(input);
        context.set<RegisterStatus>("status", { ...now, watchers });
      },

      /** Removes the execution at the end of its retention, if nothing has happened since. */
      async expire(context: ObjectContext, epoch: number): Promise<void> {
        const now = await context.get<RegisterStatus>("status");
        if (now?.epoch !== epoch || now.drive !== undefined) return;
        context.clearAll();
        await calls.send(context, { service: names.drive, key: context.key, method: "clear" }, null);
      },

      state: shared(reading, (context: ObjectSharedContext): Promise<ExecutionState | null> => toState(context)),

      listed: shared(reading, async (context: ObjectSharedContext): Promise<ExecutionState | null> => {
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
    },
  });

  function self({ key }: ObjectContext): { service: string; key: string } {
    return { service: names.register, key };
  }
}

const legalFrom: Readonly<Record<ExecutionStatus, readonly ExecutionStatus[]>> = {
  running: ["suspended"],
  suspended: ["running"],
  completed: ["running"],
  error: ["running", "suspended"],
};
const isEnd = (status: ExecutionStatus): boolean => status === "completed" || status === "error";

async function read(context: ObjectSharedContext): Promise<{ execution: Execution; now: RegisterStatus } | undefined> {
  const execution = await context.get<Execution>("execution");
  const now = await context.get<RegisterStatus>("status");
  return execution && now ? { execution, now } : undefined;
}
async function toState(context: ObjectSharedContext): Promise<ExecutionState | null> {
  const found = await read(context);
  if (!found) return null;
  const { execution, now } = found;
  const last = (await context.get<Transition>("last")) ?? undefined;
  return { execution, status: now.status, epoch: now.epoch, last };
}
