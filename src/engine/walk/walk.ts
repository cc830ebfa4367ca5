import type { JsonText } from "../../core/json.ts";
import type { EventBody, LiveEvent } from "../events.ts";
import type { Execution, Fault, Position, Transition } from "../execution.ts";

/** How an entry of the journal ended. */
export type EntryResult = { readonly at: number } & (
  | { readonly value: JsonText | undefined }
  | { readonly error: Fault }
  | { readonly suspended: { readonly reason: string; readonly data?: JsonText | undefined } }
);

/**
 * One walk of one execution. It is synchronous and a function of the journal: the same entries and transitions in the same
 * order give the same turns. Nothing of a turn may be seen or started before what it follows from is durable.
 */
export interface Walk {
  /** The entries that somebody waits for. What else ends is dropped. */
  readonly waiting: ReadonlyMap<string, unknown>;
  /** The step in flight, else the next one. */
  position(): Position;
  /** Begins, or takes in the next thing in the order of the journal. */
  next(taken?: JournalInput): Decision;
  /** The transition that the last turn asked for has been made. A backend in which somebody else may be first asks first. */
  moved(): void;
  /** The backend lets it go. */
  leave(): void;
}
/** How an entry ended, or a transition made by somebody else. */
export type JournalInput = { readonly key: string; readonly settled: EntryResult } | { readonly signal: Transition };
/** What follows from what was taken in. */
export interface Decision {
  readonly events: readonly EventBody[];
  readonly starts: readonly Start[];
  /** What the branches call for: all is done, or only parked branches remain. */
  readonly transition?: Transition | undefined;
}
/** An entry to start, `delay` milliseconds after it may be. It says once, and never at once, how it ended. */
export interface Start {
  readonly key: string;
  readonly delay: number;
  run(ended: (settled: EntryResult) => void): void;
}
export type Drive = (execution: Execution, live: (event: LiveEvent) => void) => Walk;
