import * as v from "valibot";
import { stepTypes } from "../engine/definition.ts";
import { executionStatuses, type ExecutionStatus } from "../engine/execution.ts";
import type { StepDetail, WorkflowDetail, WorkflowSummary } from "./describe.ts";
import type { ExecutionResult, StateView, SuspendResult } from "./results.ts";

const Time = v.pipe(v.string(), v.isoTimestamp());
const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const AnyObject = v.record(v.string(), v.unknown());
export const Status: v.GenericSchema<ExecutionStatus> = v.picklist(executionStatuses);

const StepShape: v.GenericSchema<StepDetail> = v.pipe(
  v.object({
    id: v.string(),
    name: v.string(),
    type: v.picklist(stepTypes),
    purpose: v.string(),
    inputSchema: v.optional(AnyObject),
    outputSchema: v.optional(AnyObject),
    suspendSchema: v.optional(AnyObject),
    resumeSchema: v.optional(AnyObject),
    steps: v.optional(v.array(v.lazy(() => StepShape))),
  }),
  v.title("Step"),
);
const summary = {
  id: v.string(),
  name: v.string(),
  purpose: v.string(),
  stepsCount: Count,
  status: v.picklist(["idle", ...executionStatuses]),
};
export const SummaryShape: v.GenericSchema<WorkflowSummary> = v.pipe(v.object(summary), v.title("WorkflowSummary"));
export const DetailShape: v.GenericSchema<WorkflowDetail> = v.pipe(
  v.object({
    ...summary,
    steps: v.array(StepShape),
    inputSchema: AnyObject,
    suspendSchema: v.nullable(AnyObject),
    resumeSchema: v.nullable(AnyObject),
  }),
  v.title("WorkflowDetail"),
);

const Position = { stepIndex: Count, stepId: v.string() };
const Waiting = { reason: v.string(), data: v.optional(v.unknown()) };
const pending = v.optional(v.array(v.pipe(v.object({ ...Position, ...Waiting }), v.title("PendingBranch"))));
const kind = v.optional(v.literal("system"));
const SuspensionShape = v.pipe(
  v.object({ suspendedAt: Time, ...Waiting, ...Position, kind, pending }),
  v.title("Suspension"),
);
const Cancellation = v.pipe(v.object({ cancelledAt: Time, reason: v.string() }), v.title("Cancellation"));
export const ResultShape: v.GenericSchema<ExecutionResult> = v.pipe(
  v.object({
    executionId: v.string(),
    startAt: Time,
    endAt: v.nullable(Time),
    status: Status,
    result: v.unknown(),
    suspension: v.optional(
      v.pipe(
        v.object({
          suspendedAt: Time,
          ...Waiting,
          suspendedStepIndex: Count,
          stepId: v.string(),
          kind,
          pending,
        }),
        v.title("ResultSuspension"),
      ),
    ),
    cancellation: v.optional(Cancellation),
  }),
  v.title("ExecutionResult"),
);
export const SuspendedShape: v.GenericSchema<SuspendResult> = v.pipe(
  v.object({
    executionId: v.string(),
    status: v.literal("suspended"),
    suspension: v.object({ suspendedAt: Time, reason: v.string() }),
  }),
  v.title("SuspendResult"),
);
export const StateShape: v.GenericSchema<StateView> = v.pipe(
  v.object({
    executionId: v.string(),
    workflowId: v.string(),
    status: Status,
    startAt: Time,
    endAt: v.nullable(Time),
    suspension: v.optional(SuspensionShape),
    input: v.unknown(),
    context: AnyObject,
    result: v.optional(v.unknown()),
    error: v.optional(v.string()),
    cancellation: v.optional(Cancellation),
  }),
  v.title("ExecutionState"),
);
/** The fields of an event. An event published with `emit` has additional fields. */
export const EventShape: v.GenericSchema<{ type: string; executionId: string; timestamp: string }> = v.pipe(
  v.objectWithRest(
    {
      type: v.string(),
      executionId: v.string(),
      timestamp: Time,
      seq: v.optional(Count),
      from: v.optional(v.string()),
      stepIndex: v.optional(Count),
      stepType: v.optional(v.picklist(stepTypes)),
      attempt: v.optional(Count),
      status: v.optional(v.picklist(["success", "skipped", ...executionStatuses])),
      suspension: v.optional(SuspensionShape),
      cancellation: v.optional(Cancellation),
      error: v.optional(v.string()),
      result: v.optional(v.unknown()),
      startAt: v.optional(Time),
      endAt: v.optional(v.nullable(Time)),
    },
    v.unknown(),
  ),
  v.title("WorkflowEvent"),
);
