import type { ObjectContext } from "@restatedev/restate-sdk";
import type { JsonText } from "../../../core/json.ts";
import { toTransitionEvent, type EventBody } from "../../../engine/events.ts";
import type { Execution, ExecutionState, ExecutionStatus, Transition } from "../../../engine/execution.ts";
import type { FailedStep } from "../../../engine/execution-log.ts";
import { eventOf, textOf, toCommandRow, type JournalRow } from "../../../engine/runs/journal-row.ts";
import type { AttemptResult } from "../../../engine/walk/decision.ts";
import { inputRow } from "../../../engine/walk/value.ts";
import type { DriveHost } from "./drive-host.ts";
import type { RegisterLink } from "./drive-link.ts";
import type { Command, DriveInput, WatchInput } from "../register/register-state.ts";
import { isReplaying } from "./replaying.ts";
import { dropPending, keepPending, toRowKey, type StoredRow } from "./rows.ts";
import { toBounded } from "../../../engine/rules/value-bound.ts";

/**
 * The rows of an execution that a drive has read and stored.
 *
 * W1. A row, its events and the status after it are one state key. Numbers of rows, of events and of epochs have no gaps.
 * W2. The row of a transition is kept as the pending one while the register is asked, so that a kill cannot lose it.
 */
export class DriveRows {
  readonly #context: ObjectContext;
  readonly #host: DriveHost;
  readonly #execution: Execution;
  readonly #retriedBy: ExecutionState["retriedBy"];
  readonly #texts = new Map<number, JournalRow>();
  /** The ids of the events that have ended waits of this execution. */
  readonly #taken = new Set<string>();
  /** Awakeables of readers that have all rows. */
  #watching: string[] = [];
  #count = 0;
  #seq = 0;
  #bytes: number;
  #epoch = 0;
  #status: ExecutionStatus = "running";

  constructor(context: ObjectContext, host: DriveHost, { execution, retriedBy }: DriveInput) {
    this.#context = context;
    this.#host = host;
    this.#execution = execution;
    this.#retriedBy = retriedBy;
    this.#bytes = Buffer.byteLength(execution.input);
  }

  get count(): number {
    return this.#count;
  }
  get epoch(): number {
    return this.#epoch;
  }
  get status(): ExecutionStatus {
    return this.#status;
  }

  /** Takes in a row that is stored already. */
  add({ seq, status, epoch }: StoredRow): void {
    this.#count++;
    this.#seq = seq;
    this.#status = status;
    this.#epoch = epoch;
  }

  /** The row that comes next. Its transitions are that of a command, then that of the decision, if it was made. */
  toNext(row: JournalRow | undefined, events: readonly EventBody[], transitions: readonly Transition[]): StoredRow {
    const closing = transitions.filter(({ to }) => to !== "running").map(toTransitionEvent);
    const all = [...events, ...closing];
    return {
      number: this.#count,
      row,
      at: row?.at ?? this.#execution.startAt,
      seq: this.#seq + all.length,
      events: all,
      status: transitions.at(-1)?.to ?? this.#status,
      epoch: this.#epoch + transitions.length,
    };
  }

  /** Stores the next row, and publishes it. */
  store(stored: StoredRow, transitions: readonly Transition[]): void {
    const isReplay = isReplaying(this.#context);
    const states = this.#set(stored, transitions);
    this.#host.publish(this.#execution.id, stored, states, isReplay);
  }

  #set(stored: StoredRow, transitions: readonly Transition[]): ExecutionState[] {
    const states = transitions.map((last, index) => this.#toState(last, this.#epoch + index + 1));
    this.add(stored);
    this.#context.set(toRowKey(stored.number), stored);
    for (const awakeable of this.#watching.splice(0)) this.#context.resolveAwakeable(awakeable, null);
    return states;
  }

  /** Asks the register for a transition, and stores its row. Returns false when a command was first, and is on its way. */
  async settle(link: RegisterLink, next: Transition, { made, notMade, onMade, failure }: Outcomes): Promise<boolean> {
    keepPending(this.#context, made.stored);
    const isMade = await link.settle(next, made.stored.epoch - 1);
    const isRepeated = isReplaying(this.#context); // the row is in Restate's journal
    if (isMade) onMade?.();
    const row = isMade ? made : notMade;
    if (row) this.store(row.stored, row.transitions);
    dropPending(this.#context);
    if (isMade && !isRepeated) this.#host.settled(this.#toState(next, made.stored.epoch), failure);
    return isMade;
  }

  /** The row of a command that no walk takes. */
  toCommand(next: Transition): NextRow {
    const row = toCommandRow(this.#count, this.#epoch + 1, next);
    return { stored: this.toNext(row, [], [next]), transitions: [next] };
  }
  /** Stores the commands that are not stored yet. */
  storeCommands(commands: readonly Command[]): void {
    for (const { epoch, next } of commands) {
      if (epoch <= this.#epoch) continue;
      const { stored, transitions } = this.toCommand(next);
      this.store(stored, transitions);
    }
  }

  #toState(last: Transition, epoch: number): ExecutionState {
    return { execution: this.#execution, status: last.to, epoch, last, retriedBy: this.#retriedBy };
  }

  /** Wakes a reader at the next row, or at once when it has not read all. */
  watch({ awakeable, afterRow }: WatchInput): void {
    if (afterRow < this.#count - 1) this.#context.resolveAwakeable(awakeable, null);
    else this.#watching.push(awakeable);
  }

  /** Keeps the text of a row for the values that refer to it. */
  keep(row: JournalRow): void {
    this.#texts.set(row.id, row);
    this.#bytes += Buffer.byteLength(row.body ?? "");
    const event = row.kind === "wake" ? eventOf(row) : undefined;
    if (event !== undefined) this.#taken.add(event);
  }
  get takenEvents(): ReadonlySet<string> {
    return this.#taken;
  }
  readText(number: number): JsonText | undefined {
    return number === inputRow ? this.#execution.input : textOf(this.#texts.get(number)!);
  }

  /** The result; a final error in its place when its value would make the execution larger than allowed. */
  toKept(result: AttemptResult): AttemptResult {
    return toBounded(result, { bytes: this.#bytes, executionBytes: this.#host.executionBytes });
  }
}

/** The two outcomes of a transition: it was made, or a command was first. */
interface Outcomes {
  readonly made: NextRow;
  readonly notMade?: NextRow;
  readonly onMade?: () => void;
  readonly failure?: FailedStep | undefined;
}
/** The row that comes next, with its transitions. */
export interface NextRow {
  readonly stored: StoredRow;
  readonly transitions: readonly Transition[];
}
