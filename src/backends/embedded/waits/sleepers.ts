import type { Logger } from "../../../core/log.ts";
import { withIds } from "../../../core/log.ts";
import type { Program } from "../../../engine/contract/program.ts";
import { toGroup, type Admissible, type GroupName, type Reservation } from "../../../engine/runs/groups.ts";
import { Run } from "../../../engine/runs/run.ts";
import type { EmbeddedRun, Runs } from "../runs.ts";
import type { Store, StoredState } from "../store/store.ts";
import type { WaitingExecutions } from "../waiting-executions.ts";

export interface SleepersOptions {
  readonly store: Store;
  readonly runs: Runs;
  readonly waiting: WaitingExecutions;
  readonly logger: Logger;
  readonly load: (
    state: StoredState,
    program: Program,
    slot: Admissible | undefined,
  ) => Promise<EmbeddedRun | { mismatch: string }>;
  readonly reserve: (group: GroupName, program: Program) => Promise<Reservation>;
}

/** Ends waits of a run. Returns whether it continues; `done` is called with the commit. */
export type EndWaits = (run: EmbeddedRun, done?: () => void) => boolean | Promise<boolean>;

/**
 * Continues executions without a run: those that are suspended until a time or an event, and those that rest.
 *
 * L1. One execution is continued by one caller at a time.
 * L2. At most `mostWoken` executions that were continued wait for a slot (`room`), so that few are in memory.
 */
export class Sleepers {
  readonly #options: SleepersOptions;
  /** The last call for each execution, while it is at work. */
  readonly #working = new Map<number, Promise<void>>();
  /** The runs that were continued, until they have a slot. */
  readonly #woken = new Set<EmbeddedRun>();

  constructor(options: SleepersOptions) {
    this.#options = options;
  }

  /** Whether further executions may be continued now. */
  get hasRoom(): boolean {
    const { slots } = this.#options.runs;
    for (const run of this.#woken) if (!slots.isQueued(run)) this.#woken.delete(run);
    return this.#woken.size < mostWoken;
  }

  /** Ends waits of an execution, which may have a run, be suspended or rest. */
  wake(number: number, end: EndWaits): Promise<void> {
    const before = this.#working.get(number);
    const work = before ? before.then(() => this.#wake(number, end)) : this.#wake(number, end);
    const settled = work
      .catch(() => {})
      .finally(() => {
        if (this.#working.get(number) === settled) this.#working.delete(number);
      });
    this.#working.set(number, settled);
    return work;
  }

  async #wake(number: number, end: EndWaits): Promise<void> {
    const { store, runs, waiting } = this.#options;
    const state = store.stateOf(number);
    if (!state) return runs.write(() => store.waits.remove(number));
    const { id } = state.execution;
    const run = runs.get(id);
    if (run) {
      await end(run);
      return runs.written();
    }
    if (waiting.has(id)) return; // it is loaded when it gets a slot
    if (state.status === "running") return this.#endRest(state);
    if (state.status === "suspended") return this.#continue(state, end);
    await runs.write(() => store.waits.remove(number)); // it has ended
  }

  /**
   * Loads a suspended execution and ends one of its waits. If `end` returns false, it stays suspended. If its code does not
   * fit, the server suspends it: its waits count at the resume.
   */
  async #continue(state: StoredState, end: EndWaits): Promise<void> {
    const { runs, waiting, load, reserve, logger } = this.#options;
    const { id, workflowId, concurrencyKey } = state.execution;
    const program = waiting.programOf(workflowId);
    if (!program) return this.#suspend(state, `workflow ${workflowId} no longer exists`);
    const group = toGroup(workflowId, concurrencyKey);
    const place = group && (await reserve(group, program));
    const run = await load(state, program, place?.isWaiting ? noSlot : undefined).finally(place?.release);
    if (!(run instanceof Run)) return this.#suspend(state, run.mismatch);
    if (run.decided.epoch !== state.epoch) return runs.written(); // another transition was first
    this.#woken.add(run);
    const done = (): void => {
      // One that ends, or was resumed meanwhile, waits for its place with its run.
      if (!place?.isWaiting || run.isChanging || runs.slots.has(run)) return;
      runs.handOver(run, (one) => waiting.takeOver(one));
    };
    const hasEnded = await end(run, done);
    if (!hasEnded) {
      withIds(logger, { executionId: id, workflowId }).debug("Execution stays suspended");
      runs.progressed(run);
    }
    await runs.written();
  }

  /** Continues an execution that rests, at the end of a retry delay or for an event. */
  async #endRest(state: StoredState): Promise<void> {
    const { runs, store, waiting, load } = this.#options;
    const { number, epoch, execution } = state;
    if (!store.waits.hasTimer(number)) return; // it was left to the next start
    const program = waiting.programOf(execution.workflowId);
    const run = program
      ? await load(state, program, noSlot)
      : { mismatch: `workflow ${execution.workflowId} no longer exists` };
    if (!(run instanceof Run)) return this.#suspend(state, run.mismatch);
    if (run.decided.epoch !== epoch) return; // a request was first, and this is its run
    // Durable before its code runs: from now on a crash counts.
    await runs
      .write(() => store.waits.remove(number))
      .catch((error: unknown) => {
        runs.outrun(run); // without a slot it would never continue: it is loaded again
        throw error;
      });
    if (run.isReleased) return;
    // A request that came while the journal was read has made a transition that the run does not know.
    if (store.stateOf(number)?.epoch !== run.committed.epoch) return runs.outrun(run);
    this.#woken.add(run);
    runs.rests.endLoaded(run);
  }

  async #suspend(state: StoredState, mismatch: string): Promise<void> {
    const { runs, store, waiting, logger } = this.#options;
    const { id, workflowId } = state.execution;
    // A request may have made a transition while the journal was read. Then the next wait is that of its state.
    await runs.written();
    if (store.stateOf(state.number)?.epoch !== state.epoch) return;
    const reason = `Workflow changed: ${mismatch}`;
    const next = await waiting.toSuspension(id, reason);
    const made = await runs.commandUndriven(state, next);
    if (made)
      withIds(logger, { executionId: id, workflowId }).warn("Execution suspended: its workflow has changed", {
        reason,
      });
  }
}

const mostWoken = 64;
/** Without a slot, no step starts. */
const noSlot: Admissible = { admit() {} };
