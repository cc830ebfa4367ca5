import type { ObjectContext } from "@restatedev/restate-sdk";
import type { JsonText } from "../../../core/json.ts";
import { toTransitionEvents, type EventBody } from "../../../engine/events.ts";
import type { Execution, ExecutionState, ExecutionStatus, Transition } from "../../../engine/execution.ts";
import type { FailedStep } from "../../../engine/execution-log.ts";
import { textOf, toCommandRow, type JournalRow } from "../../../engine/runs/journal-row.ts";
import { inputRow } from "../../../engine/walk/value.ts";
import type { Replica } from "../replica.ts";
import type { RegisterLink } from "./drive-link.ts";
import type { Command, DriveInput, WatchInput } from "../register/register-state.ts";
import { isReplaying } from "./replaying.ts";
import { dropPending, keepPending, toRowKey, type StoredRow } from "./rows.ts";

/**
 * The rows of an execution that a drive has read and stored.
 *
 * X1. A row, its events and the status after it are one state key. Row numbers, event numbers and epochs have no gaps.
 * X2. The row of a transition is kept as the pending one while the register is asked, so that a kill cannot lose it.
 */
export class DriveRows {
  readonly #context: ObjectContext;
  readonly #host: Replica;
  readonly #execution: Execution;
  readonly #retriedBy: ExecutionState["retriedBy"];
  readonly #texts = new Map<number, JournalRow>();
  /** Awakeables of readers that have all rows. */
  #watching: string[] = [];
  #last: Pick<StoredRow, "number" | "seq" | "epoch" | "status"> = { number: -1, seq: 0, epoch: 0, status: "running" };
  #isSettling = false;

  constructor(context: ObjectContext, host: Replica, { execution, retriedBy }: DriveInput) {
    this.#context = context;
    this.#host = host;
    this.#execution = execution;
    this.#retriedBy = retriedBy;
  }

  get count(): number {
    return this.#last.number + 1;
  }
  get epoch(): number {
    return this.#last.epoch;
  }
  get status(): ExecutionStatus {
    return this.#last.status;
  }
  /** True while a transition of the walk is on its way to the register. */
  get isSettling(): boolean {
    return this.#isSettling;
  }
  /** The state that the rows lead to, without its transition. */
  get state(): ExecutionState {
    const { status, epoch } = this;
    return { execution: this.#execution, status, epoch, retriedBy: this.#retriedBy };
  }

  /** Takes in a stored row. */
  add(stored: StoredRow): void {
    if (stored.row) this.keep(stored.row);
    this.#last = stored;
  }

  /** The next row. Its transitions: the command's, then the decision's, if it was made. */
  toNext(row: JournalRow | undefined, events: readonly EventBody[], transitions: readonly Transition[]): NextRow {
    const all = [...events, ...toTransitionEvents(transitions)];
    const stored: StoredRow = {
      number: this.count,
      row,
      at: row?.at ?? this.#execution.startAt,
      seq: this.#last.seq + all.length,
      events: all,
      status: transitions.at(-1)?.to ?? this.status,
      epoch: this.epoch + transitions.length,
    };
    return { stored, transitions };
  }

  /** Stores the next row, and publishes it. Returns the last state that it leads to. */
  store({ stored, transitions }: NextRow): ExecutionState | undefined {
    const isReplay = isReplaying(this.#context);
    const states = this.#set(stored, transitions);
    this.#host.publish(this.#execution.id, stored, states, isReplay);
    return states.at(-1);
  }

  #set(stored: StoredRow, transitions: readonly Transition[]): ExecutionState[] {
    const states = transitions.map((last, index) => this.#toState(last, this.epoch + index + 1));
    this.add(stored);
    this.#context.set(toRowKey(stored.number), stored);
    for (const awakeable of this.#watching.splice(0)) this.#context.resolveAwakeable(awakeable, null);
    return states;
  }

  /** Asks the register for a transition, and stores its row. `isMade` is false if a command was first, and is on its way. */
  async settle(
    link: RegisterLink,
    next: Transition,
    { made, notMade, onMade, failure }: SettleOutcomes,
  ): Promise<SettleResult> {
    keepPending(this.#context, made.stored);
    this.#isSettling = true;
    const isMade = await link.settle(next, made.stored.epoch - 1);
    const isRepeated = isReplaying(this.#context); // the row is in Restate's journal
    if (isMade) onMade?.();
    const row = isMade ? made : notMade;
    const state = row && this.store(row);
    dropPending(this.#context);
    this.#isSettling = false;
    if (state && isMade && !isRepeated) this.#host.options.onSettled?.(state, failure);
    return { isMade, state };
  }

  /** The row of a command that no walk takes. */
  toCommand(next: Transition): NextRow {
    return this.toNext(toCommandRow(this.count, this.epoch + 1, next), [], [next]);
  }
  storeCommands(commands: readonly Command[]): void {
    for (const { epoch, next } of commands) {
      if (epoch <= this.epoch) continue;
      this.store(this.toCommand(next));
    }
  }

  #toState(last: Transition, epoch: number): ExecutionState {
    return { execution: this.#execution, status: last.to, epoch, last, retriedBy: this.#retriedBy };
  }

  /** Wakes a reader at the next row, or at once when it has not read all. */
  watch({ awakeable, afterRow }: WatchInput): void {
    if (afterRow < this.count - 1) this.#context.resolveAwakeable(awakeable, null);
    else this.#watching.push(awakeable);
  }

  /** Keeps the text of a row for the values that refer to it. */
  keep(row: JournalRow): void {
    this.#texts.set(row.id, row);
  }
  readText(number: number): JsonText | undefined {
    return number === inputRow ? this.#execution.input : textOf(this.#texts.get(number)!);
  }
}

/** The two outcomes of a transition: it was made, or a command was first. */
interface SettleOutcomes {
  readonly made: NextRow;
  readonly notMade?: NextRow;
  readonly onMade?: () => void;
  readonly failure?: FailedStep | undefined;
}
interface SettleResult {
  readonly isMade: boolean;
  readonly state: ExecutionState | undefined;
}
/** The next row, with its transitions. */
export interface NextRow {
  readonly stored: StoredRow;
  readonly transitions: readonly Transition[];
}
