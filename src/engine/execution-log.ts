import type { Activity } from "../core/log.ts";
import { runInScope } from "../core/scope.ts";
import type { ExecutionState, Transition } from "./execution.ts";
import { toSuspension } from "./suspension.ts";

/** Called at each suspension and each end, once it is durable. A replay does not call it. */
export type OnSettled = (state: ExecutionState, failure?: FailedStep) => void;
/** The step whose failure ended an execution. */
export interface FailedStep {
  readonly stepId: string;
  /** True if the log has the error already, with its stack. */
  readonly isLogged: boolean;
}

/** Logs the suspensions and ends of executions, one record each. */
export function createExecutionLog(activity: Activity): OnSettled {
  return ({ execution, last }, failure) => {
    if (!last || last.to === "running" || !activity.isOn()) return;
    const { id: executionId, workflowId, userId, conversationId, startAt, trace } = execution;
    const { message, stepId, data } = describe(last, failure);
    // The step is absent where there is none: the check of a workflow's result is not a step.
    const scope = { ...trace, workflowId, executionId, stepId: stepId || undefined, userId, conversationId };
    const all = { ...data, ms: last.at - startAt };
    runInScope(scope, () => activity.log(message, all, { quiet: failure?.isLogged }));
  };
}

interface Description {
  readonly message: string;
  readonly stepId?: string | undefined;
  readonly data?: Record<string, unknown>;
}

function describe(last: Exclude<Transition, { to: "running" }>, failure: FailedStep | undefined): Description {
  if (last.to === "completed") return { message: "Execution completed" };
  if (last.to === "suspended") {
    const { reason, kind, stepId, wakeAt, deadline, event, pending = [], pendingCount } = toSuspension(last);
    const waiting = pendingCount ?? pending.length;
    const when = { ...(wakeAt && { wakeAt }), ...(deadline && { deadline }), ...(event && { event }) };
    return { message: "Execution suspended", stepId, data: { reason, kind, ...when, ...(waiting > 1 && { waiting }) } };
  }
  if ("cancellation" in last) return { message: "Execution cancelled", data: { reason: last.cancellation.reason } };
  return { message: "Execution failed", stepId: failure?.stepId, data: { error: last.error.message } };
}
