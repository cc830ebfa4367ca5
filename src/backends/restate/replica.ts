import { toWeight } from "../../core/heap-weight.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { LiveEvent } from "../../engine/events.ts";
import type { Execution, ExecutionState } from "../../engine/execution.ts";
import { countStates } from "../../engine/runs/count-states.ts";
import type { FailedStep, OnSettled } from "../../engine/execution-log.ts";
import type { Admissible } from "../../engine/runs/groups.ts";
import type { Changes } from "../../engine/runs/changes.ts";
import type { Readers } from "../../engine/runs/readers.ts";
import type { AttemptRecords, OpenRecords } from "../../engine/contract/records.ts";
import type { Slots } from "../../engine/runs/slots.ts";
import type { Arrivals } from "./arrivals.ts";
import { handlerReadMs } from "./calls.ts";
import type { Admission, DriveHost } from "./drive/drive-host.ts";
import type { LocalDrive, LocalDrives } from "./drive/drives.ts";
import type { Interruptions } from "./drive/interruptions.ts";
import type { LocalPlaces } from "./groups/local-places.ts";
import type { LocalMailboxes } from "./mailbox/local-mailboxes.ts";
import type { Programs } from "./programs.ts";
import { toRecordsKey } from "./records.ts";
import type { RescueHost } from "./register/register-rescue.ts";
import type { RescueInput } from "./register/register-state.ts";
import type { StoredRow } from "./drive/rows.ts";
import type { SettledStates } from "./reads/settled-states.ts";
import type { States } from "./reads/states.ts";
import type { StoredEvents } from "./reads/stored-events.ts";
import type { Clearance } from "./drive/interruptions.ts";
import { toEvents } from "../../engine/events.ts";

interface ReplicaParts {
  readonly executionBytes: number;
  readonly metrics: Metrics | undefined;
  readonly programs: Programs;
  readonly drives: LocalDrives;
  readonly arrivals: Arrivals;
  readonly slots: Slots;
  readonly places: LocalPlaces;
  readonly mailboxes: LocalMailboxes;
  readonly readers: Readers;
  readonly changes: Changes;
  readonly stored: StoredEvents;
  readonly states: States;
  readonly settled: SettledStates;
  readonly interruptions: Interruptions;
  readonly closing: AbortSignal;
  readonly onSettled: OnSettled | undefined;
  readonly openRecords: OpenRecords;
}

/** This replica as its drives see it. */
export class Replica implements DriveHost, RescueHost {
  readonly executionBytes: number;
  readonly slots: Slots;
  readonly #parts: ReplicaParts;

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
    this.executionBytes = parts.executionBytes;
    this.slots = parts.slots;
  }

  get isClosing(): boolean {
    return this.#parts.closing.aborted;
  }

  programOf(execution: Execution): Promise<Program | undefined> {
    return this.#parts.programs.find(execution);
  }

  enter(drive: LocalDrive & Admissible): Admission {
    const { programs, arrivals, drives, slots, places } = this.#parts;
    const { execution } = drive;
    const { id, input } = execution;
    programs.arrived(id);
    arrivals.add(id);
    const remove = drives.add(id, drive);
    const enter = (): void => slots.enter(drive, toWeight(input));
    // A drive that waits for its group takes no slot.
    const stopWaiting = execution.concurrencyKey === undefined ? enter() : places.wait(execution, enter);
    const leave = (): void => {
      remove();
      stopWaiting?.();
      slots.leave(drive);
    };
    return { reenter: enter, leave };
  }
  markLent(drive: LocalDrive, isLent: boolean): Promise<void> {
    return this.#parts.interruptions.setAbsent(drive, isLent);
  }

  readerOf(execution: Execution): ReturnType<LocalMailboxes["readerOf"]> {
    return this.#parts.mailboxes.readerOf(execution);
  }

  publish(id: string, row: StoredRow, states: readonly ExecutionState[], isReplay = false): void {
    const { readers, settled, metrics, changes } = this.#parts;
    if (!isReplay) countStates(metrics, states);
    if (!isReplay) for (const state of states) changes.publish(state);
    if (readers.has(id)) for (const event of toEvents(id, row)) readers.publish(id, event);
    for (const state of states) settled.notify(state);
  }
  settled(state: ExecutionState, failure: FailedStep | undefined): void {
    this.#parts.onSettled?.(state, failure);
  }
  openRecords(execution: Execution, key: string): Promise<AttemptRecords> {
    return this.#parts.openRecords(toRecordsKey(execution, key));
  }
  publishLive(event: LiveEvent): void {
    this.#parts.readers.publish(event.executionId, event);
  }

  firstRows(id: string, count: number): Promise<StoredRow[]> {
    return this.#parts.stored.firstRows(id, count, handlerReadMs);
  }

  retried(): void {
    this.#parts.interruptions.retried();
  }
  rescue(input: RescueInput, id: string): void {
    this.#parts.interruptions.rescue(input, id);
  }
  clear(drive: LocalDrive): Promise<Clearance> {
    return this.#parts.interruptions.clear(drive);
  }
  interrupted(drive: LocalDrive, hasMismatch: boolean): void {
    if (this.isClosing) return; // `close` has reported it
    void this.#parts.interruptions.report(drive);
    if (hasMismatch) this.rescue({ gone: drive.invocation, cause: "journal" }, drive.execution.id);
  }
  endDrive(input: RescueInput): Promise<boolean> {
    return this.#parts.interruptions.endDrive(input);
  }
}
