import { systemClock, type Clock } from "../../core/clock.ts";
import type { JsonText } from "../../core/json.ts";
import type { Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Tracer } from "../../core/trace.ts";
import type { AskAgent } from "../definition/step-context.ts";
import type { StepLimits, WorkflowDefinition } from "../definition/definition.ts";
import type { LiveEvent } from "../events.ts";
import type { EventFilter, Execution, ParkedBranch, Position, StoredError } from "../execution.ts";
import type { FailedStep } from "../execution-log.ts";
import type { OpenRecords } from "../contract/records.ts";
import type { AttemptPlan, AttemptResult, Decision, JournalInput } from "../walk/decision.ts";
import type { CreateStepRuntime } from "../runtime.ts";
import type { ReadRow, Value } from "../walk/value.ts";
import type { OnFailure } from "./failures.ts";

/**
 * One walk of one execution: the decisions, and the attempts that they start. The decisions are a function of the journal;
 * the attempts are not part of it, their results are.
 */
export interface Walk {
  /** Begins the walk, or takes the next input. Aborts attempts synchronously, before the commit of the decision. */
  next(input?: JournalInput): Decision;
  /** The transition of the last decision has been made. On a distributed backend another replica may have been first. */
  confirmTransition(): void;
  /** True if a branch waits for an entry, or for the end of a wait. Results of other entries are dropped. */
  isWaitingFor(key: string): boolean;
  /** The branches that wait for a person, a time or an event, in the order of the definition. */
  parkedBranches(): readonly ParkedBranch<Value>[];
  /** Checks the data of an event for a branch that waits for it. Returns the data as the schema of the step returns it. */
  acceptEvent(filter: EventFilter, data: JsonText | undefined): Promise<AcceptedEvent>;
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

/** The code of a workflow, and what all its walks share. */
export interface ProgramOptions extends StepLimits {
  readonly workflow: WorkflowDefinition;
  readonly logger: Logger;
  readonly tracer: Tracer;
  /** Counts the attempts. @default nothing is counted */
  readonly metrics?: Metrics | undefined;
  readonly ask: AskAgent;
  readonly createRuntime: CreateStepRuntime;
  readonly stepTimeoutMs: number;
  readonly stepValueBytes: number;
  /** Hears of each failed attempt whose result is needed. @default nothing does */
  readonly onFailure?: OnFailure | undefined;
  /** Holds the version of the config for as long as a walk is on its code. Returns the release. */
  readonly hold: () => () => void;
}

/** The data of an event that matches, or what is wrong with it. */
export type AcceptedEvent = { readonly value: JsonText | undefined } | { readonly problem: string };

/** The part of a backend that a walk uses. */
export interface WalkHost {
  /** Reads the text of a long value. */
  readonly readRow: ReadRow;
  /** Publishes an event of the author's own. */
  readonly publishLive: (event: LiveEvent) => void;
  /** The times of results, and the time limits of steps. */
  readonly clock: Clock;
  readonly slot: WalkSlot;
  /** Of several attempts that have opened the same records, the last one may write. */
  readonly openRecords: OpenRecords;
}
/** The slot of a walk, which it lends while its code waits for other executions. */
export interface WalkSlot {
  lend(): void;
  /** Resolves when it has a slot again. Never, if the walk is released before. */
  regain(): Promise<void>;
}
/** The host of a walk that runs no code. */
export const codelessHost: Omit<WalkHost, "readRow"> = {
  clock: systemClock,
  publishLive() {},
  slot: { lend() {}, regain: () => Promise.resolve() },
  openRecords: () => Promise.reject(new Error("This walk runs no code")),
};
export type CreateWalk = (execution: Execution, host: WalkHost) => Walk;
