import type { BeginOptions, StartResult, Resume, RetryOptions } from "../../engine/contract/engine.ts";
import type { Execution, ExecutionState, Position, Transition } from "../../engine/execution.ts";
import type { ForkSource } from "../../engine/fork.ts";
import { toGroup, type GroupName, type Reservation, noSlot } from "../../engine/runs/groups.ts";
import { isTurn } from "../../engine/turn-execution.ts";
import { beginDrive, commandDrive, commandUndriven } from "./drive-commands.ts";
import { storeFull, type Space } from "./file/space.ts";
import { busy, ServeError } from "../../core/error.ts";
import type { Program } from "../../engine/contract/program.ts";
import { isLegal } from "../../engine/rules/transitions.ts";
import { Drive } from "./drive.ts";
import type { EngineParts } from "./engine-parts.ts";
import type { Reads } from "./reads.ts";
import { toChangeReason } from "../../engine/compare-steps.ts";

interface CommandParts extends EngineParts {
  readonly reads: Reads;
  readonly space: Space;
}

/** The starts and transitions that callers ask for. A transition resolves to the new state; to false if another one was first. */
export class Commands {
  readonly #parts: CommandParts;

  constructor(parts: CommandParts) {
    this.#parts = parts;
  }

  async begin(execution: Execution, program: Program, { write }: BeginOptions = {}): Promise<StartResult> {
    let written: Promise<void> | undefined;
    const onWrite = (): void => {
      written = write?.();
      written?.catch(() => {}); // it is awaited below
    };
    try {
      return await this.#begin(execution, program, { onWrite });
    } finally {
      await written;
    }
  }

  fork(execution: Execution, program: Program, source: ForkSource): Promise<StartResult> {
    return this.#begin(execution, program, { source });
  }

  /** Calls `onWrite` after the start is queued. Its synchronous writes join the same commit. */
  async #begin(
    execution: Execution,
    program: Program,
    { source, onWrite }: { readonly source?: ForkSource; readonly onWrite?: () => void },
  ): Promise<StartResult> {
    const { drives, store, space } = this.#parts;
    const { id, workflowId, concurrencyKey, parent } = execution;
    // A repeated call is told that its execution exists.
    if (space.isFull && !drives.get(id) && !store.state(id)) throw storeFull("nothing was started");
    drives.refuseWhenClosing();
    const group = toGroup(workflowId, concurrencyKey);
    const reserve = (name?: GroupName): Reservation =>
      isTurn(execution) ? noReservation : drives.slots.reserve(name, parent !== undefined);
    const { isWaiting, release } = group ? await this.reserve(group, program, reserve) : reserve();
    const wait = isWaiting ? this.wait : undefined;
    const beginning = beginDrive(drives, execution, program, { release, wait, source });
    onWrite?.();
    const created = await beginning;
    return { created, isWaiting };
  }

  /** Reserves a place in a group, or in its line. */
  async reserve(
    group: GroupName,
    program: Program,
    reserve = (name: GroupName): Reservation => this.#parts.drives.slots.reserve(name),
  ): Promise<Reservation> {
    const { known, drives, waiting } = this.#parts;
    const unknown = known();
    if (unknown) await unknown; // the executions that the last process left are first
    drives.refuseWhenClosing();
    waiting.keepProgram(group.workflowId, program);
    return reserve(group);
  }

  /** Lets an execution wait for its group, without a drive. */
  readonly wait = (drive: Drive): void => this.#parts.waiting.takeOver(drive);

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const toNext = (position: Position | undefined): Transition => {
      return { at: this.#parts.clock.now(), to: "suspended", reason, pending: [], position };
    };
    const known = this.#parts.known();
    if (known) await known;
    if (this.#parts.waiting.has(id)) return this.#parts.waiting.suspend(id, toNext);
    const drive = this.#parts.drives.get(id);
    if (drive)
      return (
        isLegal(drive.run.decided, toNext(undefined)) &&
        commandDrive(this.#parts.drives, drive, toNext(drive.walk.position()))
      );
    const state = this.#parts.store.state(id);
    if (!state || !isLegal(state, toNext(undefined))) return false;
    return commandUndriven(this.#parts.drives, state, toNext(await this.#parts.reads.lastPosition(id))); // it was not recovered
  }

  resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false> {
    const { branch, ...rest } = how;
    const toNext = (): Transition => ({ at: this.#parts.clock.now(), to: "running", ...rest });
    return this.#continue(id, { epoch, branch }, toNext, program);
  }

  retry(id: string, epoch: number, how: RetryOptions, program: Program): Promise<ExecutionState | false> {
    const toNext = (): Transition => ({ at: this.#parts.clock.now(), to: "running", isRetry: true, ...how });
    return this.#continue(id, { epoch }, toNext, program);
  }

  /** Makes the transition to running, if it is legal and the epoch is still the one seen by the caller. */
  async #continue(
    id: string,
    { epoch, branch }: Pick<ExecutionState, "epoch"> & Pick<Resume, "branch">,
    toNext: () => Transition,
    program: Program,
    tries = 0,
  ): Promise<ExecutionState | false> {
    this.#parts.drives.refuseWhenClosing();
    if (tries === maxTries) throw busy(`Execution ${id} is busy with events`, 1);
    const isStill = (): boolean => {
      const now = this.#decided(id);
      if (!now || !isLegal(now, toNext())) return false;
      return now.epoch === epoch || (branch !== undefined && this.#isParked(id, branch));
    };
    // Another caller is first once its transition is committed: until then a crash could undo it.
    if (!isStill()) await this.#parts.drives.written();
    if (!isStill()) return false;
    const driven = this.#parts.drives.get(id);
    if (driven) return commandDrive(this.#parts.drives, driven, toNext());
    const state = this.#parts.store.state(id)!;
    const group = toGroup(state.execution.workflowId, state.execution.concurrencyKey);
    const { isWaiting, release } = group ? await this.reserve(group, program) : this.#parts.drives.slots.reserve();
    const drive = await this.#parts.reads.load(state, program, isWaiting ? noSlot : undefined).finally(release);
    if (!isStill()) await this.#parts.drives.written(); // another caller was first, or a cancel
    if (!isStill()) return false;
    if (!(drive instanceof Drive)) throw new ServeError(409, toChangeReason(drive.mismatch));
    // An event that the execution does not wait for has let the drive go, at the same time.
    if (drive.isReleased) return this.#continue(id, { epoch, branch }, toNext, program, tries + 1);
    // Nothing of it is in flight: if the store cannot be written, the drive is forgotten again.
    const wait = isWaiting ? this.wait : undefined;
    return commandDrive(this.#parts.drives, drive, toNext(), { isJustLoaded: true, wait });
  }

  /** True if the branch with this wake key is waiting. */
  #isParked(id: string, key: string): boolean {
    const drive = this.#parts.drives.get(id);
    const last = this.#parts.store.state(id)?.last;
    const pending = drive ? drive.walk.parkedBranches() : last?.to === "suspended" ? last.pending : [];
    return pending.some((one) => one.key === key);
  }

  async cancel(id: string, reason: string): Promise<ExecutionState | false> {
    const cancelled = await this.#cancel(id, reason);
    await this.cancelChildren(id);
    return cancelled;
  }

  /** Cancels the children of an execution that was cancelled; of all such executions at the start. */
  async cancelChildren(id?: string): Promise<void> {
    const { logger } = this.#parts;
    for (const { id: child, reason } of this.#parts.store.children.left(id))
      await this.cancel(child, reason).catch((error: unknown) =>
        logger.error("A child could not be cancelled: the next start tries again", { executionId: child, error }),
      );
  }

  async #cancel(id: string, reason: string): Promise<ExecutionState | false> {
    const known = this.#parts.known();
    if (known) await known;
    if (this.#parts.waiting.has(id)) {
      const made = await this.#parts.waiting.command(id, this.#toCancellation(reason));
      if (made !== undefined) return made;
    }
    // Another transition may be first, such as a suspension because the workflow has changed. The cancel follows on it.
    for (let tries = 0; tries < maxTries; tries++) {
      const drive = this.#parts.drives.get(id);
      const state = drive?.committed ?? this.#parts.store.state(id);
      if (!state) return false;
      const next = this.#toCancellation(reason);
      if (!isLegal(drive?.run.decided ?? state, next)) {
        await this.#parts.drives.written(); // its end is durable before the caller hears of it
        return false;
      }
      const made = await (drive
        ? commandDrive(this.#parts.drives, drive, next)
        : commandUndriven(this.#parts.drives, state, next));
      if (made) return made;
    }
    throw busy(`Execution ${id} changes too fast to be cancelled`, 1);
  }

  /** Status and epoch of an execution, with the transitions that are being written. */
  #decided(id: string): Pick<ExecutionState, "status" | "epoch" | "last"> | undefined {
    const drive = this.#parts.drives.get(id);
    return drive ? { ...drive.run.decided, last: drive.committed.last } : this.#parts.store.state(id);
  }

  #toCancellation(reason: string): Transition {
    return { at: this.#parts.clock.now(), to: "error", cancellation: { reason } };
  }
}

/** Max times that others may be first. */
const maxTries = 100;

/** Turns take no slot. */
const noReservation: Reservation = { isWaiting: false, release() {} };
