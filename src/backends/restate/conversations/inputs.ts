import type { ChangedMessage, LastTurn, PageOptions, StoredMessage } from "../../../engine/contract/conversations.ts";
import type { Execution } from "../../../engine/execution.ts";
import type { DecidedCall, WaitingCalls } from "../../../engine/stored/pending-calls.ts";
import type { TurnFacts } from "./info.ts";
import { toTurn } from "./line-turn.ts";

interface PlaceInput {
  /** The place that asks. */
  readonly id: string;
  readonly until?: string | undefined;
}
export interface HistoryInput extends PlaceInput {
  readonly maxBytes: number;
}
export interface ModelsInput extends Pick<PlaceInput, "id"> {
  /** The numbers of the messages. */
  readonly numbers: readonly number[];
}
export interface PageInput extends PageOptions {
  /** The index of the first text to return. */
  readonly from: number;
}
export interface StoreInput extends PlaceInput {
  /** Counts the stores of one turn. */
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
export interface CallsInput extends Pick<PlaceInput, "id"> {
  /** The ids of the calls. */
  readonly calls: readonly string[];
}
export interface KeepInput extends Pick<PlaceInput, "id"> {
  readonly execution: Execution;
}
export interface WatchInput {
  readonly id: string;
  readonly awakeable: string;
}
export interface StartInput extends Pick<PlaceInput, "id"> {
  /** The number of records that were found. */
  readonly recorded: number;
}
/** The last turn that has ended. */
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
  /** The key of the object that has the records of the turn. */
  readonly records: string;
  /** The time at which its replica was given up. */
  readonly at: number;
}
