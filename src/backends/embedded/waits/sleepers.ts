import { withIds } from "../../../core/log.ts";
import { groupOf, noSlot } from "../../../engine/runs/groups.ts";
import { Drive } from "../drive.ts";
import type { EngineParts } from "../engine-parts.ts";
import type { StoredState } from "../store/stored-state.ts";

/**
 * Continues executions without a drive: resting ones, and those suspended until a time or an event.
 *
 * Y1. One execution is continued by one caller at a time.
 * Y2. At most `maxWoken` continued executions wait for a slot (`hasRoom`), so that few are in memory.
 */
export class Sleepers {
  readonly #parts: EngineParts;
  /** The last call for each execution, while it is at work. */
  readonly #working = new Map<number, Promise<void>>();
  /** The continued drives, until they have a slot. */
  readonly #woken = new Set<Drive>();

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** True if further executions may be continued now. */
  get hasRoom(): boolean {
    const { slots } = this.#parts.drives;
    for (const drive of this.#woken) if (!slots.isQueued(drive)) this.#woken.delete(drive);
    return this.#woken.size < maxWoken;
  }

  /** Ends the due waits of an execution and those with an event. The execution may have a drive, be suspended or rest. */
  wake(number: number): Promise<void> {
    const before = this.#working.get(number);
    const work = before ? before.then(() => this.#wake(number)) : this.#wake(number);
    const settled = work
      .catch(() => {})
      .finally(() => {
        if (this.#working.get(number) === settled) this.#working.delete(number);
      });
    this.#working.set(number, settled);
    return work;
  }

  async #wake(number: number): Promise<void> {
    const { store, drives, waiting, known } = this.#parts;
    const unknown = known();
    if (unknown) await unknown; // no code of a workflow is known before
    const state = store.stateOf(number);
    if (!state) return drives.writer.request(() => store.waits.remove(number));
    const { id } = state.execution;
    const drive = drives.get(id);
    if (drive) {
      drive.run.news();
      await drive.search;
      return drives.written();
    }
    if (waiting.has(id)) return; // it is loaded when it gets a slot
    if (state.status === "running") return this.#endRest(state);
    if (state.status === "suspended") return this.#continue(state);
    await drives.writer.request(() => store.waits.remove(number)); // it ended
  }

  /**
   * Loads a suspended execution and ends waits of it. If none is over, it stays suspended. If its code does not
   * fit, the server suspends it: its waits count at the resume.
   */
  async #continue(state: StoredState): Promise<void> {
    const { drives, waiting, logger } = this.#parts;
    const { id, workflowId } = state.execution;
    drives.refuseWhenClosing();
    const group = groupOf(state);
    const place = group && drives.slots.reserveWake(group);
    const drive = await waiting.load(state, place?.isWaiting ? noSlot : undefined).finally(place?.release);
    if (!(drive instanceof Drive)) return this.#suspend(state, drive.mismatch);
    if (drive.run.decided.epoch !== state.epoch) return drives.written(); // another transition was first
    this.#woken.add(drive);
    const done = (): void => {
      // One that ends, or was resumed meanwhile, waits for its place with its drive.
      if (!place?.isWaiting || drive.isChanging || drives.slots.has(drive)) return;
      drives.handOver(drive, (one) => waiting.takeOver(one));
    };
    drive.run.news({ done });
    await drive.search;
    if (drive.run.decided.epoch === state.epoch)
      withIds(logger, { executionId: id, workflowId }).debug("Execution stays suspended");
    await drives.written();
  }

  /** Continues an execution that rests, at the end of a retry delay or for an event. */
  async #endRest(state: StoredState): Promise<void> {
    const { drives, store, waiting } = this.#parts;
    const { number, epoch } = state;
    if (!store.waits.hasTimer(number)) return; // it was left to the next start
    const drive = await waiting.load(state, noSlot);
    if (!(drive instanceof Drive)) return this.#suspend(state, drive.mismatch);
    if (drive.run.decided.epoch !== epoch) return; // a request was first, and this is its drive
    // Durable before its code runs: from now on a crash counts.
    await drives.writer
      .request(() => store.waits.remove(number))
      .catch((error: unknown) => {
        drives.forget(drive); // without a slot it would never continue: it is loaded again
        throw error;
      });
    if (drive.isReleased) return;
    // While the journal was read, a request made a transition that the drive does not know.
    if (store.stateOf(number)?.epoch !== drive.committed.epoch) return drives.forget(drive);
    this.#woken.add(drive);
    const hasPlace = drives.slots.replacePlace(number, drive);
    drives.slots.enter(drive, drive.weight, hasPlace ? undefined : groupOf(drive));
  }

  async #suspend(state: StoredState, mismatch: string): Promise<void> {
    const { drives, store, waiting } = this.#parts;
    // A request may have made a transition while the journal was read. Then its state has the next wait.
    await drives.written();
    if (store.stateOf(state.number)?.epoch === state.epoch) await waiting.suspendChanged(state, mismatch);
  }
}

const maxWoken = 64;
