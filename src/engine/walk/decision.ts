import type { Caller } from "../../core/caller.ts";
import type { JsonText } from "../../core/json.ts";
import type { EventBody } from "../events.ts";
import type { StoredError, Transition } from "../execution.ts";
import type { EntrySuffix } from "./journal-keys.ts";
import type { Value } from "./value.ts";

/** The result of one journal entry. */
export type EntryResult<V = Value> = { readonly at: number } & (
  | { readonly value: V }
  | { readonly error: StoredError }
  | { readonly suspended: { readonly reason: string; readonly data?: V | undefined } }
);
/** The result of an attempt, before the journal has a row for it. */
export type AttemptResult = EntryResult<JsonText | undefined>;

/** One input of a walk, in the order of the journal: the end of an entry, or a transition made from outside. */
export type JournalInput =
  | { readonly key: string; readonly result: EntryResult }
  | { readonly command: Transition<Value> };

/** The result of one input: plain data. Events, starts and the transition wait for the commit; aborts need not. */
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
