import type { EventBody } from "../../../engine/events.ts";
import type { Execution, ExecutionState } from "../../../engine/execution.ts";

/** A change as it was committed. */
export interface Commit {
  readonly events: readonly EventBody[];
  /** The states that the transitions led to, in order. */
  readonly states: readonly StoredState[];
}

/** A state with the number under which the file keeps the execution. */
export interface StoredState extends ExecutionState {
  readonly number: number;
}

/** An execution in a list for its operator. */
export interface ListedExecution {
  readonly id: string;
  readonly workflowId: string;
  readonly status: ExecutionState["status"];
  readonly startAt: number;
  readonly endAt: number | null;
  /** The reason of a suspension. */
  readonly reason: string | null;
  /** The message of a failure. */
  readonly error: string | null;
  /** The reason of a cancel. */
  readonly cancelled: string | null;
}
export interface NewestFilter {
  readonly statuses?: readonly ExecutionState["status"][] | undefined;
  readonly workflowId?: string | undefined;
  readonly userId?: string | undefined;
  /** The beginning of the id. */
  readonly idPrefix?: string | undefined;
  readonly limit: number;
}

/** The columns of an execution. */
export interface StateRow {
  number: number;
  id: string;
  workflow: string;
  started: number;
  steps: string;
  input: string;
  user: string | null;
  options: string | null;
  status: ExecutionState["status"];
  epoch: number;
  last: string | null;
  retried: string | null;
}

export function toState(row: StateRow): StoredState {
  const { number, id, workflow: workflowId, started: startAt, input, status, epoch, last } = row;
  const userId = row.user ?? undefined;
  const options = JSON.parse(row.options ?? none);
  const execution: Execution = { id, workflowId, startAt, input, userId, steps: JSON.parse(row.steps), ...options };
  const retriedBy = row.retried === null ? undefined : JSON.parse(row.retried);
  return { number, execution, status, epoch, last: last === null ? undefined : JSON.parse(last), retriedBy };
}

/** The options of an execution without conversation and context. */
export const none = '{"context":{}}';

/** The times before which executions have expired; undefined for never. */
export interface Expiry {
  readonly now: number;
  readonly ended: number | undefined;
  readonly suspended: number | undefined;
  readonly isDriven: (id: string) => boolean;
}
export interface SweepResult {
  /** The number to continue after; undefined when all later executions are younger. */
  readonly next: number | undefined;
  /** The ids of the suspended executions that were removed. */
  readonly waited: readonly string[];
}
export interface SweepRow {
  number: number;
  id: string;
  started: number;
  ended: number | null;
  suspended: number | null;
}
