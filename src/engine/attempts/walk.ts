import type { Clock } from "../../core/clock.ts";
import type { LiveEvent } from "../events.ts";
import type { Execution, Position, StoredError } from "../execution.ts";
import type { FailedStep } from "../execution-log.ts";
import type { AttemptPlan, AttemptResult, Decision, JournalInput } from "../walk/decision.ts";
import type { ReadRow } from "../walk/value.ts";

/**
 * One walk of one execution: the decisions, and the attempts that they start. The decisions are a function of the journal;
 * the attempts are not part of it, their results are.
 */
export interface Walk {
  /** Begins the walk, or takes the next input. Attempts that the decision aborts are aborted at once, before its commit. */
  next(input?: JournalInput): Decision;
  /** The transition of the last decision has been made. On a distributed backend another replica may have been first. */
  confirmTransition(): void;
  /** Whether a branch waits for an entry. Results of other entries are dropped. */
  isWaitingFor(key: string): boolean;
  /** The step in flight, else the next one. */
  position(): Position;
  /** The step whose error ends the execution. */
  failedStep(error: StoredError): FailedStep;
  /** Runs the code of an attempt. Calls `ended` once, and never synchronously. */
  start(plan: AttemptPlan, ended: (result: AttemptResult) => void): void;
  /** The number of attempts that run. */
  readonly inFlight: number;
  /** Aborts the attempts in flight and releases the version of the config. Later results and failures are dropped. */
  release(reason: string): void;
}

/** The part of a backend that a walk uses. */
export interface WalkHost {
  /** Reads the text of a long value. Restate: from the rows that its drive has loaded. */
  readonly readRow: ReadRow;
  /** Publishes an event of the author's own. Restate: to the readers of this replica. */
  readonly publishLive: (event: LiveEvent) => void;
  /** The times of results, and the time limits of steps. Restate: the clock of the replica. */
  readonly clock: Clock;
}
export type CreateWalk = (execution: Execution, host: WalkHost) => Walk;
