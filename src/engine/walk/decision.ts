import type { Caller } from "../../core/caller.ts";
import type { JsonText } from "../../core/json.ts";
import type { CopiedEvent, EventBody } from "../events.ts";
import type { Due, ParkedBranch, StoredError, Transition } from "../execution.ts";
import type { EntrySuffix } from "./journal-keys.ts";
import type { Value } from "./value.ts";

/**
 * The result of one journal entry. `isFinal` says that a failure is not retried. The failing code decides it: a replay by
 * code with another `retry` leads to the same place. Rows of older versions do not have it.
 */
export type EntryResult<V = Value> = { readonly at: number } & (
  | { readonly value: V }
  | { readonly loop: LoopStart; readonly value: V }
  | { readonly error: StoredError; readonly isFinal?: boolean | undefined }
  | { readonly suspended: { readonly reason: string; readonly data?: V | undefined; readonly due?: Due | undefined } }
);
/** The beginning of `andForEach`. Changed code does not change a loop that began. */
export interface LoopStart {
  readonly count: number;
  readonly concurrency: number;
  readonly onError: "fail" | "collect";
  /** The items are the step's `data`, and are not stored again. */
  readonly isData?: true | undefined;
}
/** The result of an attempt, before the journal has a row for it. */
export type AttemptResult = EntryResult<JsonText | undefined> & {
  /** The attempt has recorded results, which are removed with the commit of this one. */
  readonly hasRecords?: true | undefined;
};

/** One input of a walk, in journal order: the end of an entry or a wait, or a command. */
export type JournalInput =
  | { readonly key: string; readonly result: EntryResult }
  | { readonly wake: Wake }
  | { readonly command: Transition<Value> };

/** The end of a wait without a resume: its time is reached, or its event has arrived. */
export interface Wake {
  readonly key: string;
  readonly at: number;
  /** The data of the event. */
  readonly value?: Value;
  /** The next row ends another wait at the same moment. Branches continue after the last of them. */
  readonly isJoined?: true | undefined;
}

/** The result of one input: plain data. Events, starts and the transition wait for the commit; aborts need not. */
export interface Decision {
  /** The events to publish. Those of transitions follow from the transitions themselves. */
  readonly events: readonly EventBody[];
  /** The events of steps that a fork has copied. They are stored, and never published. */
  readonly copied?: readonly CopiedEvent[] | undefined;
  /** The attempts to start. */
  readonly starts: readonly AttemptPlan[];
  /** The attempts whose results are no longer needed. */
  readonly aborts: readonly AbortPlan[];
  /** The waits that begin. */
  readonly parks: readonly ParkedBranch<Value>[];
  /** The transition to make: the workflow ended, or only parked branches remain. */
  readonly transition?: Transition<Value> | undefined;
}

/** One attempt at an entry, as data. Its code is found by path and suffix. */
export interface AttemptPlan {
  /** The journal key of the result. */
  readonly key: string;
  readonly stepIndex: number;
  readonly path: string;
  /** The path without the numbers of iterations, under which the code is found. */
  readonly codePath: string;
  readonly suffix: EntrySuffix;
  readonly attempt: number;
  /** The end of a retry delay, by the time of the journal. */
  readonly dueAt: number | undefined;
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
/** The data of a resume and its caller; or the data of a wake. */
export interface ResumeInput {
  readonly data: Value;
  readonly by: Caller | undefined;
  /** The wait ended by its time or its event, not by a resume. */
  readonly isWake?: true;
}
