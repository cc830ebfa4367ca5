import { ServeError } from "../../core/error.ts";
import { unknownDensity } from "../../core/byte-budget.ts";
import { withIds, type Logger } from "../../core/log.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { ExecutionState, Position, Transition } from "../../engine/execution.ts";
import { agentOf, isTurn } from "../../engine/turn-execution.ts";
import { noSlot, toGroup, type Admissible, type GroupName } from "../../engine/runs/groups.ts";
import { commandDrive, commandUndriven } from "./drive-commands.ts";
import { unavailable } from "./file/sqlite-error.ts";
import type { Drive } from "./drive.ts";
import { toNotDriven } from "./publisher.ts";
import type { Drives } from "./drives.ts";
import type { Store } from "./store/store.ts";
import type { StoredState } from "./store/stored-state.ts";
import type { InterruptedExecution } from "./store/tables/process-table.ts";
import { toChangeReason, toGone } from "../../engine/compare-steps.ts";

type ProgramOf = (workflowId: string) => Program | undefined;

export interface WaitingOptions {
  readonly store: Store;
  readonly drives: Drives;
  readonly logger: Logger;
  /** Replays an execution and registers its drive, which takes over the slot; or returns the first mismatch with the code. */
  readonly load: (
    state: StoredState,
    program: Program,
    slot: Admissible | undefined,
  ) => Promise<Drive | { mismatch: string }>;
  /** The innermost step that had started and not ended. */
  readonly lastPosition: (id: string) => Promise<Position | undefined>;
}

/**
 * The running executions without a drive: those that the last process left, and those beyond the `concurrency` of
 * their workflow.
 *
 * V1. An execution is loaded when it gets a slot. Until then only its ids are in memory.
 * V2. It continues on the newest code of its workflow.
 */
export class WaitingExecutions {
  readonly #options: WaitingOptions;
  readonly #byId = new Map<string, WaitingExecution>();
  readonly #counts = new Map<string, number>();
  #programOf: ProgramOf | undefined;
  /** Without `programOf`: the code of the last execution that waits, by workflow. */
  readonly #last = new Map<string, Program>();

  constructor(options: WaitingOptions) {
    this.#options = options;
  }

  /** Sets the code on which the executions continue. */
  open(programOf: ProgramOf): void {
    this.#programOf = programOf;
  }
  /** The newest code of a workflow. */
  programOf(workflowId: string): Program | undefined {
    return this.#programOf ? this.#programOf(workflowId) : this.#last.get(workflowId);
  }
  /** The newest `concurrency.limit` of a workflow. */
  limitOf(workflowId: string): number {
    return this.programOf(workflowId)?.concurrency?.limit ?? Infinity;
  }
  /** Notes the code of an execution that may wait. */
  keepProgram(workflowId: string, program: Program): void {
    if (!this.#programOf) this.#last.set(workflowId, program);
  }

  has(id: string): boolean {
    return this.#byId.has(id);
  }
  /** The waiting executions of a workflow, counted. */
  count(workflowId: string): number {
    return this.#counts.get(workflowId) ?? 0;
  }
  /** Resolves when the executions that have a slot are loaded, or could not be. */
  async loaded(): Promise<void> {
    await Promise.all([...this.#byId.values()].map(({ loading }) => loading));
  }

  /** Adds an execution. It is not queued yet. */
  add(found: InterruptedExecution): WaitingExecution {
    const waiting = new WaitingExecution(found, this.#loadAdmitted);
    this.#byId.set(found.id, waiting);
    this.#counts.set(found.workflowId, this.count(found.workflowId) + 1);
    return waiting;
  }
  #remove({ found: { id, workflowId } }: WaitingExecution): void {
    if (!this.#byId.delete(id)) return;
    const count = this.count(workflowId) - 1;
    if (count > 0) this.#counts.set(workflowId, count);
    else this.#counts.delete(workflowId);
  }

  /** Forgets a turn that is not in the file any more. One that is being loaded is not found, and ends. */
  forget(id: string): void {
    const waiting = this.#byId.get(id);
    if (waiting) this.#remove(waiting);
  }

  /** Takes over an execution that has just begun or was resumed. Its drive is released. */
  takeOver(drive: Drive): void {
    const { number, execution } = drive.committed;
    const { id, workflowId, concurrencyKey } = execution;
    const found: InterruptedExecution = {
      number,
      id,
      workflowId,
      crashes: 0,
      bytes: drive.run.bytes,
      concurrencyKey,
      isWaiting: true,
    };
    this.enter(this.add(found));
  }

  /** Queues an execution for a slot; first for a place in its group, if it has one. A turn needs neither. */
  enter(waiting: WaitingExecution): void {
    if (isTurn(waiting.found)) return waiting.admit();
    const { group, weight } = waiting;
    this.#options.drives.slots.enter(waiting, weight, group);
  }

  /** Makes a transition of an execution that has no drive; undefined when it has one, or is not one of these. */
  async command(id: string, next: Transition): Promise<ExecutionState | false | undefined> {
    const { store, drives } = this.#options;
    return this.#claim(id, async (waiting) =>
      commandUndriven(drives, store.state(id)!, next, () => this.#remove(waiting)),
    );
  }

  /** Suspends an execution that has no drive. It is loaded for that, because only its walk knows its position. */
  async suspend(id: string, toNext: (position: Position) => Transition): Promise<ExecutionState | false> {
    const { drives } = this.#options;
    const made = await this.#claim(id, async (waiting) => {
      await this.#load(waiting, noSlot).catch((error: unknown) => {
        throw error instanceof ServeError ? error : unavailable("Storage cannot be read: nothing was changed", error);
      });
      drives.refuseWhenClosing();
      const drive = drives.get(id);
      return drive ? commandDrive(drives, drive, toNext(drive.walk.position())) : false;
    });
    if (made !== undefined) return made;
    const drive = drives.get(id);
    return drive?.run.decided.status === "running" && commandDrive(drives, drive, toNext(drive.walk.position()));
  }

  /** Takes an execution out of the queue for a transition. Undefined when it has a drive, or is not one of these. */
  async #claim<T>(id: string, act: (waiting: WaitingExecution) => Promise<T>): Promise<T | undefined> {
    const waiting = this.#byId.get(id);
    if (!waiting) return undefined;
    await this.whenIdle(waiting);
    if (!this.#byId.has(id)) return undefined;
    const acting = this.#act(waiting, act);
    waiting.loading = Promise.allSettled([acting]);
    return acting;
  }

  /** Resolves when an execution is neither being loaded nor changed. */
  async whenIdle(waiting: WaitingExecution): Promise<void> {
    while (waiting.loading !== undefined && this.#byId.has(waiting.found.id)) await waiting.loading;
  }

  async #act<T>(waiting: WaitingExecution, act: (waiting: WaitingExecution) => Promise<T>): Promise<T> {
    const { slots } = this.#options.drives;
    const { found, group, weight } = waiting;
    const wasQueued = slots.leave(waiting); // a suspect whose turn has not come was not
    try {
      const made = await act(waiting);
      waiting.drop();
      return made;
    } catch (error) {
      waiting.loading = undefined;
      const isWaiting = this.#byId.has(found.id);
      const again = this.#options.drives.get(found.id) ?? (isWaiting ? waiting : undefined);
      if (again && (wasQueued || again !== waiting)) slots.enter(again, weight, group);
      else if (again && group) slots.hold(again, group);
      throw error;
    }
  }

  readonly #loadAdmitted = (waiting: WaitingExecution): Promise<void> => this.#load(waiting, waiting);

  async #load(waiting: WaitingExecution, slot: Admissible): Promise<void> {
    const { store, drives } = this.#options;
    const { id, number, isWaiting } = waiting.found;
    try {
      // Durable before its code runs: from now on a crash counts.
      if (isWaiting && slot === waiting) await drives.writer.runOrPass(() => store.processes.endWaiting(number));
      const state = store.state(id)!;
      const loaded = await this.load(state, slot);
      const onCommit = (): void => this.#remove(waiting);
      if ("mismatch" in loaded)
        await (isTurn(waiting.found)
          ? commandUndriven(drives, state, this.#toTurnEnd(waiting), onCommit)
          : this.suspendChanged(state, loaded.mismatch, onCommit));
    } catch (error) {
      if (slot !== waiting) throw error; // of a suspend: the execution is queued again
      this.giveUp(waiting, error);
    }
    this.#remove(waiting);
    drives.slots.leave(waiting);
  }

  /** Loads an execution on the newest code of its workflow. It takes over a slot, or else the next free one. */
  async load(state: StoredState, slot: Admissible | undefined): Promise<Drive | { mismatch: string }> {
    const { workflowId } = state.execution;
    const program = this.programOf(workflowId);
    return program ? this.#options.load(state, program, slot) : { mismatch: toGone(workflowId) };
  }

  /** Suspends an execution without a drive that does not fit the code. */
  async suspendChanged(state: StoredState, mismatch: string, onCommit?: () => void): Promise<void> {
    const { drives, logger } = this.#options;
    const { id, workflowId } = state.execution;
    const reason = toChangeReason(mismatch);
    const suspended = await commandUndriven(drives, state, await this.toSuspension(id, reason), onCommit);
    if (suspended)
      withIds(logger, { executionId: id, workflowId }).warn("Execution suspended: its workflow has changed", {
        reason,
      });
  }
  /** A turn whose agent is gone cannot be continued, now or later. */
  #toTurnEnd(waiting: WaitingExecution): Transition {
    const agentId = agentOf(waiting.found.workflowId);
    this.#loggerOf(waiting).warn(`A turn ended after a restart: agent ${agentId} no longer exists`);
    return { at: this.#options.drives.clock.now(), to: "error", error: { message: `Agent ${agentId} not found` } };
  }

  /** Leaves an execution to the next start. */
  giveUp(waiting: WaitingExecution, error: unknown): void {
    const { drives } = this.#options;
    const { id } = waiting.found;
    this.#remove(waiting);
    drives.publisher.readers.close(id);
    drives.publisher.onTurnEnd(id);
    if (drives.isClosing) return; // all waiters are refused
    this.#loggerOf(waiting).error("An execution could not be loaded; the next start tries again", { error });
    drives.publisher.waiters.refuse(id, toNotDriven(id));
  }

  #loggerOf({ found: { id, workflowId } }: WaitingExecution): Logger {
    return withIds(this.#options.logger, { executionId: id, workflowId });
  }

  async toSuspension(id: string, reason: string): Promise<Transition> {
    const position = await this.#options.lastPosition(id);
    return { at: this.#options.drives.clock.now(), to: "suspended", kind: "system", reason, pending: [], position };
  }
}

/** A running execution without a drive. */
export class WaitingExecution implements Admissible {
  readonly found: InterruptedExecution;
  readonly #load: (waiting: WaitingExecution) => Promise<void>;
  /** It is being loaded, or a transition of it is being written. Never rejects. */
  loading: Promise<unknown> | undefined;
  #admitted: PromiseWithResolvers<void> | undefined;

  constructor(found: InterruptedExecution, load: (waiting: WaitingExecution) => Promise<void>) {
    this.found = found;
    this.#load = load;
  }

  get group(): GroupName | undefined {
    return toGroup(this.found.workflowId, this.found.concurrencyKey);
  }
  get weight(): number {
    return this.found.bytes * unknownDensity;
  }

  /** Resolves when it gets a slot, or needs none any more. */
  admission(): Promise<void> {
    this.#admitted ??= Promise.withResolvers();
    return this.#admitted.promise;
  }

  admit(): void {
    this.loading = this.#load(this);
    this.#admitted?.resolve();
  }

  /** It needs no slot any more. */
  drop(): void {
    this.#admitted?.resolve();
  }
}
