import { toIso } from "../core/iso-time.ts";
import { fromJsonText } from "../core/json.ts";
import { toCancellation } from "../engine/events.ts";
import { toSuspension, type Suspension } from "../engine/suspension.ts";
import type { ExecutionState, StoredError } from "../engine/execution.ts";
import type { Cancellation, ExecutionView } from "../engine/runtime.ts";
import type { StoredEvent, LiveEvent } from "../engine/events.ts";

/** True to show the message of every error, false to show only messages of `ServeError`. */
export type ShowErrors = boolean;

const failed = "Failed to execute workflow";
const endAt = ({ status, last }: ExecutionState): string | null =>
  last && (status === "completed" || status === "error") ? toIso(last.at) : null;

/** The result of an execution, as returned by execute, resume and cancel. */
export interface ExecutionResult {
  executionId: string;
  startAt: string;
  endAt: string | null;
  status: ExecutionState["status"];
  result: unknown;
  suspension?: Omit<Suspension, "stepIndex"> & { suspendedStepIndex: number };
  cancellation?: Cancellation;
}

export function toResult(state: ExecutionState): ExecutionResult {
  const { execution, status, last } = state;
  const result: ExecutionResult = {
    executionId: execution.id,
    startAt: toIso(execution.startAt),
    endAt: endAt(state),
    status,
    result: last?.to === "completed" ? (fromJsonText(last.result) ?? null) : null,
  };
  if (last?.to === "suspended") {
    const { stepIndex: suspendedStepIndex, ...suspension } = toSuspension(last);
    result.suspension = { ...suspension, suspendedStepIndex };
  }
  if (last && "cancellation" in last) result.cancellation = toCancellation(last);
  return result;
}

/** The response of suspend. */
export interface SuspendResult {
  executionId: string;
  status: "suspended";
  suspension: { suspendedAt: string; reason: string };
}

/** `isInspector`: the caller may see the values of steps. */
export function toStateView(state: ExecutionState, showErrors: ShowErrors, isInspector = false): ExecutionView {
  const { execution, status, last } = state;
  const { userId, conversationId } = execution;
  const view: ExecutionView = {
    executionId: execution.id,
    workflowId: execution.workflowId,
    status,
    startAt: toIso(execution.startAt),
    endAt: endAt(state),
    input: fromJsonText(execution.input),
    context: {
      ...execution.context,
      ...(userId !== undefined && { userId }),
      ...(conversationId !== undefined && { conversationId }),
    },
  };
  if (last?.to === "suspended") view.suspension = toSuspension(last);
  if (last?.to === "completed") view.result = fromJsonText(last.result) ?? null;
  if (last && "error" in last) view.error = toError(last.error, showErrors);
  if (last && "cancellation" in last) view.cancellation = toCancellation(last);
  if (execution.fork) view.forkedFrom = execution.fork.from;
  if (isInspector && state.retriedBy) view.retriedBy = state.retriedBy;
  return view;
}

/** An execution, with the rights of the caller on request. */
export type StateView = ExecutionView & {
  /** True if the caller may resume it. Present while it is suspended. */
  mayResume?: boolean;
  /** True if the caller may fork it. Present while it is not running. */
  mayFork?: boolean;
};

/** An execution in the list of all workflows: its values are shown on request only. */
export type ItemView = Omit<StateView, "input" | "context" | "mayFork"> &
  Partial<Pick<ExecutionView, "input" | "context">>;

export function toItemView(state: ExecutionState, showErrors: ShowErrors, hasValues: boolean): ItemView {
  const view = toStateView(state, showErrors);
  if (hasValues) return view;
  const { input: _input, context: _context, result: _result, ...item } = view;
  return item;
}

/** Converts an event for a client. */
export function toEventView(event: StoredEvent | LiveEvent, showErrors: ShowErrors): Record<string, unknown> {
  const { error } = event as { error?: StoredError };
  return event.type === "workflow-error" && error ? { ...event, error: toError(error, showErrors) } : { ...event };
}

/** Returns the last event of a stream. It is created for this stream only: it is not stored and has no `seq`. */
export function toResultEvent(state: ExecutionState, showErrors: ShowErrors, now: number): Record<string, unknown> {
  const {
    executionId,
    status,
    startAt,
    endAt: end,
    suspension,
    error,
    cancellation,
    result,
  } = toStateView(state, showErrors);
  return {
    type: "workflow-result",
    executionId,
    timestamp: new Date(now).toISOString(),
    status,
    result: result ?? null,
    startAt,
    endAt: end,
    ...(suspension && { suspension }),
    ...(error !== undefined && { error }),
    ...(cancellation && { cancellation }),
  };
}

export const toError = ({ message, shown }: StoredError, showErrors: ShowErrors): string =>
  shown || showErrors ? message : failed;
