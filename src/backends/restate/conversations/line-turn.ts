import type { TurnStart } from "../../../engine/contract/conversations.ts";

/** A turn that has begun, as the place that has it keeps it. */
export interface LineTurn extends TurnStart {
  readonly workflowId: string;
  /** The key of the object that has the records of the turn. */
  readonly records: string;
  /** True if Restate runs it, because the replica that began it is gone. */
  isHandedOver?: boolean | undefined;
  /** True if Restate has run it: the next run follows an interruption of that one. */
  isRepeated?: boolean | undefined;
  /** The number of its runs: that of the replica that began it is the first. */
  runs: number;
  /** The crashes in a row without a new record between them. */
  crashes: number;
  /** The number of records when it was last interrupted. */
  recorded: number;
  isStopped?: boolean | undefined;
  /** True if replicas that do not run it have readers. */
  isHeard?: boolean | undefined;
  /** Resolved when there is something to tell its runner. One that publishes the answer knows of readers. */
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
  /** The number of the run. */
  readonly run: number;
  readonly isStopped: boolean;
  /** The crashes in a row, without a new record between them. */
  readonly crashes: number;
}

/** The crashes in a row, without a new record between them, after which a turn is ended. */
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
