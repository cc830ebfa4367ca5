import type { Program } from "../../../engine/contract/program.ts";
import type { LiveEvent } from "../../../engine/events.ts";
import type { Execution, ExecutionState } from "../../../engine/execution.ts";
import type { FailedStep } from "../../../engine/execution-log.ts";
import type { AttemptRecords } from "../../../engine/contract/records.ts";
import type { Admissible } from "../../../engine/runs/groups.ts";
import type { Slots } from "../../../engine/runs/slots.ts";
import type { Calls, ServiceNames } from "../calls.ts";
import type { LocalMailboxes } from "../mailbox/local-mailboxes.ts";
import type { LocalDrive } from "./drives.ts";
import type { RescueInput } from "../register/register-state.ts";
import type { StoredRow } from "./rows.ts";
import type { RestateSdk } from "../sdk.ts";
import type { Clearance } from "./interruptions.ts";

/** The part of a replica that its drives use. */
export interface DriveHost extends Pick<LocalMailboxes, "readerOf"> {
  /** Max bytes of the input and all values of one execution. */
  readonly executionBytes: number;
  /** True when the server is shutting down: attempts in flight may finish, no other is started. */
  readonly isClosing: boolean;
  /** The code of an execution on this replica. Waits until the replica knows its workflows; rejects if it may not run them. */
  programOf(execution: Execution): Promise<Program | undefined>;
  /** Reads the first rows of an execution. */
  firstRows(id: string, count: number): Promise<StoredRow[]>;
  /** The slots of the replica. */
  readonly slots: Slots;
  /** Gives the drive a slot, now or later. */
  enter(drive: LocalDrive & Admissible): Admission;
  /** Stores whether all code of a drive waits for other executions. */
  markLent(drive: LocalDrive, isLent: boolean): Promise<void>;
  /** Lets a drive that was interrupted run again, in its turn. */
  clear(drive: LocalDrive): Promise<Clearance>;
  /** The attempt of a drive has ended before the drive: its connection was lost, or its calls are not those of the journal. */
  interrupted(drive: LocalDrive, hasMismatch: boolean): void;
  /**
   * A row and its transitions are in Restate's journal, or follow from it. `isReplay` is true if an earlier attempt of the
   * drive has published them.
   */
  publish(id: string, row: StoredRow, states: readonly ExecutionState[], isReplay?: boolean): void;
  publishLive(event: LiveEvent): void;
  /** Opens the results that an attempt records. */
  openRecords(execution: Execution, key: string): Promise<AttemptRecords>;
  /** A drive of this replica has made a transition. Not called again when the drive is repeated. */
  settled(state: ExecutionState, failure: FailedStep | undefined): void;
  /** An attempt of a drive repeats an interrupted one. */
  retried(): void;
  /** Ends a drive that cannot continue. Another one continues from the rows. */
  rescue(input: RescueInput, id: string): void;
}
/** A drive among those of its replica. */
export interface Admission {
  /** Asks for a slot again. */
  reenter(): void;
  leave(): void;
}
export interface DriveParts {
  readonly sdk: RestateSdk;
  readonly names: ServiceNames;
  readonly calls: Calls;
  readonly host: DriveHost;
}
