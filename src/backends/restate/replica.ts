import { toWeight } from "../../core/heap-weight.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Program } from "../../engine/backend.ts";
import type { LiveEvent } from "../../engine/events.ts";
import type { Execution, ExecutionState } from "../../engine/execution.ts";
import { countStates } from "../../engine/runs/count-states.ts";
import type { FailedStep, OnSettled } from "../../engine/execution-log.ts";
import type { Readers } from "../../engine/runs/readers.ts";
import type { Admissible, Slots } from "../../engine/runs/slots.ts";
import type { Arrivals } from "./arrivals.ts";
import type { DriveHost } from "./drive/drive-host.ts";
import type { LocalDrive, LocalDrives } from "./drive/drives.ts";
import type { Interruptions } from "./drive/interruptions.ts";
import type { Programs } from "./programs.ts";
import type { RescueHost } from "./register/register-rescue.ts";
import type { RescueInput } from "./register/register-state.ts";
import { toEvents, type StoredRow } from "./drive/rows.ts";
import type { SettledStates } from "./settled-states.ts";
import type { States } from "./states.ts";
import type { StoredEvents } from "./stored-events.ts";
import type { Clearance } from "./drive/suspects.ts";

interface ReplicaParts {
  readonly executionBytes: number;
  readonly metrics: Metrics | undefined;
  readonly programs: Programs;
  readonly drives: LocalDrives;
  readonly arrivals: Arrivals;
  readonly slots: Slots;
  readonly readers: Readers;
  readonly stored: StoredEvents;
  readonly states: States;
  readonly settled: SettledStates;
  readonly interruptions: Interruptions;
  readonly closing: AbortSignal;
  readonly onSettled: OnSettled | undefined;
}

/** This replica as its drives see it. */
export class Replica implements DriveHost, RescueHost {
  readonly executionBytes: number;
  readonly #parts: ReplicaParts;

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
    this.executionBytes = parts.executionBytes;
  }

  get isClosing(): boolean {
    return this.#parts.closing.aborted;
  }

  programOf(execution: Execution): Promise<Program | undefined> {
    return this.#parts.programs.find(execution);
  }

  enter(drive: LocalDrive & Admissible): () => void {
    const { programs, arrivals, drives, slots } = this.#parts;
    const { id, input } = drive.execution;
    programs.arrived(id);
    arrivals.note(id);
    const remove = drives.add(id, drive);
    slots.enter(drive, toWeight(input));
    return () => {
      remove();
      slots.leave(drive);
    };
  }

  publish(id: string, row: StoredRow, states: readonly ExecutionState[], isReplay = false): void {
    const { readers, settled, metrics } = this.#parts;
    if (!isReplay) countStates(metrics, states);
    if (readers.has(id)) for (const event of toEvents(id, row)) readers.publish(id, event);
    for (const state of states) settled.notify(state);
  }
  settled(state: ExecutionState, failure: FailedStep | undefined): void {
    this.#parts.onSettled?.(state, failure);
  }
  publishLive(event: LiveEvent): void {
    this.#parts.readers.publish(event.executionId, event);
  }

  firstRows(id: string, count: number): Promise<StoredRow[]> {
    return this.#parts.stored.firstRows(id, count);
  }

  rescue(input: RescueInput, id: string): void {
    this.#parts.interruptions.rescue(input, id);
  }
  summon(summonsId: string): void {
    this.#parts.states.resolve(summonsId);
  }
  clear(drive: LocalDrive): Promise<Clearance> {
    return this.#parts.interruptions.clear(drive);
  }
  interrupted(drive: LocalDrive, isRepeated: boolean): void {
    if (this.isClosing) return; // `close` has reported it
    void this.#parts.interruptions.report(drive);
    if (isRepeated) {
      const { invocation: gone, solo, execution } = drive;
      this.rescue({ gone, cause: "journal", solo }, execution.id);
    }
  }
  endDrive(input: RescueInput): Promise<boolean> {
    return this.#parts.interruptions.endDrive(input);
  }
}
