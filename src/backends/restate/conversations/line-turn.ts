import type { TurnStart } from "../../../engine/contract/conversations.ts";

/** A running turn, as its place keeps it. */
export interface LineTurn extends TurnStart {
  readonly workflowId: string;
  /** The key of its records. */
  readonly records: string;
  /** True if Restate runs it, because its first replica is lost. */
  isHandedOver?: boolean | undefined;
  /** True if Restate has run it: the next run follows an interruption. */
  isRepeated?: boolean | undefined;
  /** The number of its runs. The first one is on the replica that began it. */
  runs: number;
  /** The crashes in a row without a new record between them. */
  crashes: number;
  /** The number of records when it was last interrupted. */
  recorded: number;
  isStopped?: boolean | undefined;
  /** True if replicas that do not run it have readers. */
  isHeard?: boolean | undefined;
  /** Resolved when there is news for its runner. One that publishes the answer knows of readers. */
  orders?: { readonly awakeable: string; readonly isPublishing: boolean } | undefined;
}

/** The news for the replica that runs a turn. */
export interface TurnOrders {
  readonly isStopped?: boolean | undefined;
  readonly isHeard?: boolean | undefined;
  /** The place does not have the turn any more. */
  readonly isOver?: boolean | undefined;
  /** It was dropped together with its conversation. */
  readonly isDeleted?: boolean | undefined;
}
/** The answer to a run of a turn by Restate, before its code runs. */
export interface TurnRun {
  readonly run: number;
  readonly isStopped: boolean;
  readonly crashes: number;
}

/** Max crashes of a turn in a row, without a new record between them. */
export const maxCrashes = 3;

export const toTurn = (start: Pick<LineTurn, keyof TurnStart | "workflowId" | "records">): LineTurn => ({
  ...start,
  runs: 1,
  crashes: 0,
  recorded: 0,
});

/** Counts a run by Restate. The crash before the first one is counted when the turn is handed over. */
export function countRun(turn: LineTurn, recorded: number): TurnRun {
  if (turn.isRepeated) turn.crashes++;
  if (recorded > turn.recorded) turn.crashes = Math.min(turn.crashes, 1);
  turn.recorded = recorded;
  turn.isRepeated = true;
  turn.runs++;
  return { run: turn.runs, isStopped: turn.isStopped ?? false, crashes: turn.crashes };
}
