import { heapPerByte, quarterOfHeap, toWeight } from "../../core/byte-budget.ts";
import { newId } from "../../core/id.ts";
import type { Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { AttemptRecords } from "../../engine/contract/records.ts";
import { toEvents } from "../../engine/events.ts";
import type { Execution, ExecutionState } from "../../engine/execution.ts";
import type { OnSettled } from "../../engine/execution-log.ts";
import { Changes } from "../../engine/runs/changes.ts";
import { countStates } from "../../engine/runs/count-states.ts";
import type { Admissible } from "../../engine/runs/groups.ts";
import { Readers } from "../../engine/runs/readers.ts";
import { Slots } from "../../engine/runs/slots.ts";
import { Arrivals } from "./arrivals.ts";
import { handlerReadMs, type ServiceParts } from "./calls.ts";
import { RestateClient } from "./client/client.ts";
import { LocalDrives, type LocalDrive } from "./drive/drives.ts";
import { Interruptions } from "./drive/interruptions.ts";
import type { RowHost, StoredRow } from "./drive/rows.ts";
import { LocalPlaces } from "./groups/local-places.ts";
import { LocalMailboxes } from "./mailbox/local-mailboxes.ts";
import type { RestateSettings } from "./options.ts";
import { Programs } from "./programs.ts";
import { openRecords, toRecordsKey } from "./records.ts";
import { SettledStates } from "./reads/settled-states.ts";
import { States } from "./reads/states.ts";
import { StoredEvents } from "./reads/stored-events.ts";

export interface ReplicaOptions extends RestateSettings {
  /** The folder of the config. */
  readonly root: string;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  readonly waitingExecutions: number;
  readonly executionBytes: number;
  readonly conversationBytes: number;
  /** Max events of a name and key, up to 1,000. @default 1000 */
  readonly storedEvents?: number | undefined;
  readonly logger: Logger;
  readonly metrics?: Metrics | undefined;
  readonly onSettled?: OnSettled | undefined;
}

/** The admission of a drive on its replica. */
export interface Admission {
  /** Asks for a slot again. */
  reenter(): void;
  leave(): void;
}

/** This replica: the parts that its requests, its drives and its turns share. */
export class Replica implements RowHost {
  readonly options: ReplicaOptions;
  readonly client: RestateClient;
  readonly states: States;
  readonly drives: LocalDrives = new LocalDrives();
  readonly arrivals: Arrivals = new Arrivals();
  readonly changes: Changes = new Changes({ isRepeated: true });
  readonly readers: Readers;
  readonly slots: Slots;
  readonly stored: StoredEvents;
  readonly settled: SettledStates;
  readonly interruptions: Interruptions;
  readonly mailboxes: LocalMailboxes;
  readonly programs: Programs;
  /** Aborted when the server shuts down: attempts in flight may finish, no other is started. */
  readonly closing: AbortController = new AbortController();
  /** Aborted when the drain is over: callers get their results until then. */
  readonly closed: AbortController = new AbortController();
  /** Resolves after the first registration, or the first failure of it. */
  readonly known: PromiseWithResolvers<void> = Promise.withResolvers<void>();
  readonly #places: LocalPlaces;

  constructor(options: ReplicaOptions) {
    const { runningExecutions: running, queuedExecutions: queued } = options;
    this.options = options;
    const client = new RestateClient(options, this.known.promise);
    this.client = client;
    this.states = new States(client);
    this.readers = new Readers(options.sseBufferBytes);
    // Its groups are in Restate.
    this.slots = new Slots({ running, queued, bytes: quarterOfHeap() / heapPerByte });
    const { states, readers, drives, arrivals } = this;
    const { signal: closing } = this.closing;
    this.stored = new StoredEvents({ client, states, drives, readers, closing, replica: newId() });
    this.settled = new SettledStates({ client, states, drives, arrivals, closed: this.closed.signal });
    this.interruptions = new Interruptions(client);
    this.mailboxes = new LocalMailboxes(client, options.logger);
    this.programs = new Programs(this.known.promise);
    this.#places = new LocalPlaces(client, closing);
  }

  get isClosing(): boolean {
    return this.closing.signal.aborted;
  }

  /** Gives a drive a slot, now or later. */
  enter(drive: LocalDrive & Admissible): Admission {
    const { execution } = drive;
    const { id, input } = execution;
    this.programs.arrived(id);
    this.arrivals.add(id);
    const remove = this.drives.add(id, drive);
    const enter = (): void => this.slots.enter(drive, toWeight(input));
    // A drive that waits for its group takes no slot.
    const stopWaiting = execution.concurrencyKey === undefined ? enter() : this.#places.wait(execution, enter);
    const leave = (): void => {
      remove();
      stopWaiting?.();
      this.slots.leave(drive);
    };
    return { reenter: enter, leave };
  }

  /**
   * A row and its transitions are in Restate's journal, or follow from it. `isReplay` is true if an earlier attempt of the
   * drive has published them.
   */
  publish(id: string, row: StoredRow, states: readonly ExecutionState[], isReplay = false): void {
    const { readers, settled, changes } = this;
    if (!isReplay) countStates(this.options.metrics, states);
    if (!isReplay) for (const state of states) changes.publish(state);
    if (readers.has(id)) for (const event of toEvents(id, row)) readers.publish(id, event);
    for (const state of states) settled.notify(state);
  }

  /** Reads the first rows of an execution for a handler. */
  firstRows(id: string, count: number): Promise<StoredRow[]> {
    return this.stored.firstRows(id, count, handlerReadMs);
  }

  /** Opens the results that an attempt records. */
  openRecords(execution: Execution, key: string): Promise<AttemptRecords> {
    return openRecords(this.client, toRecordsKey(execution, key));
  }

  /** An attempt of a drive was interrupted: its connection was lost, or its calls differ from the journal. */
  interrupted(drive: LocalDrive, hasMismatch: boolean): void {
    if (this.isClosing) return; // `close` has reported it
    void this.interruptions.report(drive);
    if (hasMismatch) this.interruptions.rescue({ gone: drive.invocation, cause: "journal" }, drive.execution.id);
  }
}

/** The parts of services that need the replica. */
export interface ReplicaServiceParts extends ServiceParts {
  readonly host: Replica;
}
