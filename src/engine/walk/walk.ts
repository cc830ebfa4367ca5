import type { Caller } from "../../core/caller.ts";
import type { JsonText } from "../../core/json.ts";
import type { EventBody, LiveEvent } from "../events.ts";
import type { Execution, Fault, Position, Transition } from "../execution.ts";
import type { EntrySuffix } from "./journal-keys.ts";
import type { ReadRow, Value } from "./value.ts";

/** The result of one journal entry. */
export type EntryResult<V = Value> = { readonly at: number } & (
  | { readonly value: V }
  | { readonly error: Fault }
  | { readonly suspended: { readonly reason: string; readonly data?: V | undefined } }
);
/** The result of an attempt, before the journal has a row for it. */
export type AttemptResult = EntryResult<JsonText | undefined>;

/** One input of a walk, in the order of the journal: the end of an entry, or a transition made from outside. */
export type JournalInput =
  | { readonly key: string; readonly result: EntryResult }
  | { readonly command: Transition<Value> };

/** The result of one input: plain data. Nothing of it may be visible before the input is durable. */
export interface Decision {
  /** The events to publish. Those of transitions follow from the transitions themselves. */
  readonly events: readonly EventBody[];
  /** The attempts to start. */
  readonly starts: readonly AttemptPlan[];
  /** The attempts whose results are no longer needed. */
  readonly aborts: readonly AbortPlan[];
  /** The transition to make: the workflow has ended, or only parked branches remain. */
  readonly transition?: Transition<Value> | undefined;
}

/** One attempt at an entry, as data. Its code is found by path and suffix. */
export interface AttemptPlan {
  /** The journal key of the result. */
  readonly key: string;
  readonly path: string;
  readonly suffix: EntrySuffix;
  readonly attempt: number;
  /** Milliseconds to wait before the start. */
  readonly delay: number;
  readonly idempotencyKey: string;
  readonly data: Value;
  readonly argument?: Value;
  /** The input of the workflow, or of the sub-workflow that the step is in. */
  readonly input: Value;
  readonly resumed?: ResumeInput | undefined;
}
export interface AbortPlan {
  readonly key: string;
  readonly reason: string;
}
/** The data of a resume, and its caller. */
export interface ResumeInput {
  readonly data: Value;
  readonly by: Caller | undefined;
}

/**
 * One walk of one execution: decisions, and the attempts that they start. The decisions are a function of the journal: the
 * same inputs in the same order give the same decisions.
 */
export interface Walk {
  /** The keys of the entries that the walk waits for. Results of other entries are dropped. */
  readonly waiting: ReadonlyMap<string, unknown>;
  /** The step in flight, else the next one. */
  position(): Position;
  /** Begins the walk, or takes the next input. */
  next(input?: JournalInput): Decision;
  /** The transition of the last decision has been made. On a distributed backend another replica may have been first. */
  confirmTransition(): void;
  /** Runs the code of an attempt. Calls `ended` once, never synchronously, and not after `leave`. */
  start(plan: AttemptPlan, ended: (result: AttemptResult) => void): void;
  /** Aborts the attempts in flight and releases the walk. */
  leave(reason: string): void;
}

/** The part of a backend that a walk uses. */
export interface WalkHost {
  /** Reads the text of a long value. Restate: from the rows that its drive has loaded. */
  readonly readRow: ReadRow;
  /** Publishes an event of the author's own. Restate: to the readers of this replica. */
  readonly publishLive: (event: LiveEvent) => void;
}
export type Drive = (execution: Execution, host: WalkHost) => Walk;
