import type { BeginOptions, StartResult } from "../../engine/contract/engine.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { Execution } from "../../engine/execution.ts";
import type { ForkSource } from "../../engine/fork.ts";
import { toGroup, type GroupName, type Reservation } from "../../engine/runs/groups.ts";
import { isTurn } from "../../engine/turn-execution.ts";
import { beginDrive } from "./drive-commands.ts";
import type { Drive } from "./drive.ts";
import { storeFull, type Space } from "./file/space.ts";
import type { EngineParts } from "./engine-parts.ts";

interface StartParts extends EngineParts {
  readonly space: Space;
}

/** The starts of executions, and their places in groups. */
export class Starts {
  readonly #parts: StartParts;

  constructor(parts: StartParts) {
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

  /** `onWrite` is called when the start is handed to the writer. What it writes at once is part of the same commit. */
  async #begin(
    execution: Execution,
    program: Program,
    { source, onWrite }: { readonly source?: ForkSource; readonly onWrite?: () => void },
  ): Promise<StartResult> {
    const { drives, store, space } = this.#parts;
    const { id, workflowId, concurrencyKey, parent } = execution;
    // A call that is repeated hears that its execution exists.
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
}

/** Turns take no slot. */
const noReservation: Reservation = { isWaiting: false, release() {} };
