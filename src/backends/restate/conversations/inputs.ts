import type { ChangedMessage, LastTurn, PageOptions, StoredMessage } from "../../../engine/contract/conversations.ts";
import type { Execution } from "../../../engine/execution.ts";
import type { DecidedCall, PendingCall, WaitingCalls } from "../../../engine/stored/pending-calls.ts";
import type { TurnFacts } from "./info.ts";
import type { LineNews } from "./line.ts";
import type { toTurn } from "./line-turn.ts";
import type { PartialHistory } from "./messages.ts";

/** The handlers for a place that has the turn. They resolve to null for any other place. */
export interface PlaceCalls {
  history(input: { readonly until?: string | undefined; readonly maxBytes: number }): PartialHistory;
  /** Reads the model messages of the stored messages with these numbers. */
  models(input: { readonly numbers: readonly number[] }): string[];
  calls(input: { readonly calls: readonly string[] }): readonly PendingCall[];
  /** Keeps the execution of a turn that is about to begin. */
  keep(input: { readonly execution: Execution }): boolean;
  store(input: StoreInput): LineNews;
}
export type PlaceInput<Name extends keyof PlaceCalls> = Parameters<PlaceCalls[Name]>[0];
/** The input with the place that asks. */
export type InputOfPlace<Name extends keyof PlaceCalls> = PlaceInput<Name> & { readonly id: string };
export type PlaceResult<Name extends keyof PlaceCalls> = ReturnType<PlaceCalls[Name]>;

export interface PageInput extends PageOptions {
  /** The index of the first text to return. */
  readonly from: number;
}
export interface StoreInput {
  readonly until?: string | undefined;
  /** The sequence number of this write within its turn. */
  readonly number: number;
  /** Undefined: none is stored, and none is removed. */
  readonly messages?: readonly StoredMessage[] | undefined;
  readonly facts: TurnFacts;
  /** The turn that begins with it. Its execution is here, or was kept before. */
  readonly begins?: { readonly turn: Parameters<typeof toTurn>[0]; readonly execution?: Execution } | undefined;
  /** True if the turn ends with it. */
  readonly isLast?: boolean | undefined;
  /** The changes of stored messages, and of calls that wait. */
  readonly changed?: readonly ChangedMessage[] | undefined;
  readonly decided?: readonly DecidedCall[] | undefined;
  readonly waiting?: WaitingCalls | undefined;
}
export interface WatchInput {
  readonly id: string;
  readonly awakeable: string;
}
export interface StartInput {
  readonly id: string;
  /** The number of records that were found. */
  readonly recorded: number;
}
/** The last turn that was ended. */
export interface EndedTurn extends LastTurn {
  /** Its place. */
  readonly place: string;
}
/** The turn that Restate is to run. */
export interface RunInput {
  /** The conversation. */
  readonly key: string;
  /** The place of the turn. */
  readonly id: string;
  readonly turnId: string;
  readonly workflowId: string;
  /** The key of its records. */
  readonly records: string;
  /** The time at which its replica was given up. */
  readonly at: number;
}
