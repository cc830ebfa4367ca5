import type { Clock } from "../../core/clock.ts";
import type { CopiedEvent, EventBody } from "../events.ts";
import type { ExecutionState, ParkedBranch, Transition } from "../execution.ts";
import type { AttemptPlan } from "../walk/decision.ts";
import type { Value } from "../walk/value.ts";
import type { FoundTakes } from "./find-takes.ts";
import { toCommandRow, type JournalRow } from "./journal-row.ts";

/** The result of one input: the unit of a commit. */
export interface Change {
  readonly at: number;
  /** The attempts to start, and the waits that begin. */
  readonly starts: readonly AttemptPlan[];
  readonly parks: readonly ParkedBranch<Value>[];
  /** The next times of an execution that is suspended now. */
  readonly times?: NextTimes | undefined;
  /** The journal row of the input; undefined for the start of an execution, which has no row. */
  readonly row: JournalRow | undefined;
  /** The rows before it, of waits that end at the same moment. */
  readonly joined?: readonly JournalRow[];
  /** The first rows of a fork, and their rows in the original. */
  readonly copies?: readonly Copy[];
  /** The events of the copied steps that began with a fork. */
  readonly copied?: readonly CopiedEvent[];
  /** The events of the decision. Those of the transitions come after them. */
  readonly events: readonly EventBody[];
  /** The transitions, in order: by a command or a wake, then the walk's own. */
  readonly transitions: readonly Transition<Value>[];
  /** True if the last transition is the walk's own. */
  readonly hasOwn: boolean;
  /** The epoch before these transitions. */
  readonly epoch: number;
  /** The number of the last event, the transitions' events included. */
  readonly seq: number;
}

/** Joins decisions into one change, from the epoch before the first one. */
export function toWhole(changes: readonly Change[]): Change {
  const [first] = changes;
  const last = changes.at(-1);
  if (!first || !last) throw new RangeError("no change");
  return {
    ...last,
    epoch: first.epoch,
    events: changes.flatMap(({ events }) => events),
    starts: changes.flatMap(({ starts }) => starts),
    parks: changes.flatMap(({ parks }) => parks),
    transitions: changes.flatMap(({ transitions }) => transitions),
  };
}

/** The change by a command, for an execution without a run. `id` is the row number. */
export function toCommandChange(id: number, next: Transition, { epoch, seq }: Pick<Change, "epoch" | "seq">): Change {
  const row = toCommandRow(id, epoch + 1, next);
  return { row, at: next.at, events: [], transitions: [next], hasOwn: false, epoch, seq, starts: [], parks: [] };
}

export interface Copy {
  readonly row: JournalRow;
  readonly original: number;
  readonly copied: readonly CopiedEvent[];
}

/**
 * The backend of one run. Its calls are synchronous, and answers come back as inputs of the run, one at a time.
 *
 * P1. Changes are stored in the order of `append`. `onOutcome` is called in that order, and never inside of `append`.
 * P2. A change is published once, when it is durable and before `onOutcome`.
 * P3. The run knows nothing of slots. `start` may wait for one. If the execution is suspended before, or no branch waits for
 *     the attempt any more, the result is `notStarted`.
 * P4. `alarm` may be late, but is not lost: `time` is the answer. The backend calls `news` if there may be events.
 * P5. The walk's own transition may be *preceded*, if another process can make a command: everything else of the change is
 *     stored, and the command is an input that follows. A backend on which that can happen gives no input before the outcome.
 *     It confirms the transition to the walk when it is made; any other backend does so in `append`.
 * P6. `onOutcome` is not called for a change that another writer was before, or that can never be stored. After it, and after
 *     `release`, nothing is stored and no input comes.
 */
export interface RunPort<Request = unknown> {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** Max bytes of one execution: its input and all values. */
  readonly executionBytes: number;
  /** Reserves the number of the next journal row. */
  newRow(): number;
  /** Stores a change. `request` is what the backend has passed with the input. */
  append(change: Change, request: Request | undefined, onOutcome: (outcome: CommitOutcome) => void): void;
  /** Runs an attempt once there is a slot, and answers with `end`. */
  start(plan: AttemptPlan): void;
  /** Sets the next times, which replace the last ones; undefined: none. `isIdle`: until then the execution needs no slot. */
  alarm(times: NextTimes | undefined, isIdle: boolean): void;
  /** Searches the events that branches may take. `onFound` is called later, once. */
  findEvents(onFound: (found: FoundTakes) => void): void;
  /** The journal has everything: the execution ended, or is suspended with nothing in flight. */
  leave(): void;
}

/** The next times of a run: for durations by the monotonic clock, for dates by the wall clock. */
export interface NextTimes {
  readonly elapsed?: number | undefined;
  readonly date?: number | undefined;
}

/** The outcome of a change that is stored. */
export interface CommitOutcome {
  /** The state that its transitions led to; undefined if it has none. */
  readonly state?: ExecutionState | undefined;
  /** A command was before the walk's own transition (P5). */
  readonly isPreceded?: true;
}

/** The facts about stored rows that are not in them. */
export interface ReplayFacts {
  /** The present by the clock of a row, for durations since that row; undefined if they follow the wall clock. */
  readonly nowOf?: (row: number) => number | undefined;
  /**
   * True if a command preceded the walk's own transition after this row (0: the start). The command is the next row, or is not
   * stored yet.
   */
  readonly wasPreceded?: (row: number) => boolean;
}

/** The answer for an attempt that has not begun. */
export const notStarted = "not started";
