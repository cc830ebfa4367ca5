import * as v from "valibot";
import type { ExecutionChange } from "../../engine/contract/engine.ts";
import { executionStatuses, type ExecutionStatus } from "../../engine/execution.ts";
import { stepShapes } from "../../engine/definition/step-traits.ts";
import { suspensionKinds } from "../../engine/suspension.ts";
import { stepStatuses } from "../../engine/steps/step-record.ts";
import type { StepDetail, WorkflowDetail, WorkflowSummary } from "../describe.ts";
import type { ExecutionResult, ItemView, StateView, SuspendResult } from "../results.ts";
import type { StepView } from "../history/step-views.ts";

const Time = v.pipe(v.string(), v.isoTimestamp());
const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const AnyObject = v.record(v.string(), v.unknown());
const Status: v.GenericSchema<ExecutionStatus> = v.picklist(executionStatuses);

const Flag = v.optional(v.literal(true));
const StepShape: v.GenericSchema<StepDetail> = v.pipe(
  v.object({
    id: v.string(),
    name: v.string(),
    type: v.string(),
    shape: v.picklist(stepShapes),
    tolerates: Flag,
    passesOn: Flag,
    items: v.optional(v.picklist(["list", "iteration"])),
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
const Pending = {
  reason: v.string(),
  data: v.optional(v.unknown()),
  kind: v.picklist(suspensionKinds),
  wakeAt: v.optional(Time),
  deadline: v.optional(Time),
  event: v.optional(v.string()),
  key: v.optional(v.string()),
};
const All = {
  pending: v.optional(
    v.array(v.pipe(v.object({ suspendedAt: Time, ...Position, ...Pending }), v.title("PendingBranch"))),
  ),
  pendingCount: v.optional(Count),
};
const SuspensionShape = v.pipe(v.object({ suspendedAt: Time, ...Pending, ...Position, ...All }), v.title("Suspension"));
const optionalKind = v.optional(Pending.kind);
/** A suspension in an event. Those of former versions have no kinds, and branches without `suspendedAt`. */
const EventSuspension = v.pipe(
  v.object({
    suspendedAt: Time,
    ...Pending,
    ...Position,
    ...All,
    kind: optionalKind,
    pending: v.optional(
      v.array(
        v.pipe(
          v.object({ suspendedAt: v.optional(Time), ...Position, ...Pending, kind: optionalKind }),
          v.title("EventBranch"),
        ),
      ),
    ),
  }),
  v.title("EventSuspension"),
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
          ...Pending,
          suspendedStepIndex: Count,
          stepId: v.string(),
          ...All,
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
const item = {
  executionId: v.string(),
  workflowId: v.string(),
  status: Status,
  startAt: Time,
  endAt: v.nullable(Time),
  suspension: v.optional(SuspensionShape),
  result: v.optional(v.unknown()),
  error: v.optional(v.string()),
  cancellation: v.optional(Cancellation),
  forkedFrom: v.optional(v.string()),
};
const Caller = v.pipe(v.object({ user: AnyObject, userId: v.optional(v.string()) }), v.title("Caller"));
export const StateShape: v.GenericSchema<StateView> = v.pipe(
  v.object({
    ...item,
    input: v.unknown(),
    context: AnyObject,
    retriedBy: v.optional(Caller),
    mayResume: v.optional(v.boolean()),
    mayFork: v.optional(v.boolean()),
  }),
  v.title("ExecutionState"),
);
export const ItemShape: v.GenericSchema<ItemView> = v.pipe(
  v.object({
    ...item,
    input: v.optional(v.unknown()),
    context: v.optional(AnyObject),
    mayResume: v.optional(v.boolean()),
  }),
  v.title("ListedExecution"),
);
/** An event of `GET /executions/stream`. */
export const ChangeShape: v.GenericSchema<Omit<ExecutionChange, "userId"> & { type: "execution" }> = v.pipe(
  v.object({
    type: v.literal("execution"),
    executionId: v.string(),
    workflowId: v.string(),
    status: Status,
    kind: v.optional(v.picklist(suspensionKinds)),
  }),
  v.title("ExecutionChange"),
);
const NullableTime = v.nullable(Time);
const counts = v.entriesFromList(stepStatuses, v.optional(Count));
const IterationCount = v.pipe(v.object({ total: Count, ...counts }), v.title("IterationCount"));
export const StepViewShape: v.GenericSchema<StepView> = v.pipe(
  v.object({
    path: v.string(),
    stepId: v.string(),
    type: v.string(),
    status: v.picklist(stepStatuses),
    startAt: Time,
    endAt: NullableTime,
    attempts: v.array(
      v.pipe(
        v.object({
          attempt: Count,
          startAt: Time,
          endAt: NullableTime,
          error: v.optional(v.string()),
          frame: v.optional(v.string()),
        }),
        v.title("StepAttempt"),
      ),
    ),
    input: v.optional(v.unknown()),
    output: v.optional(v.unknown()),
    suspension: v.optional(
      v.pipe(
        v.object({ suspendedAt: Time, ...Pending, kind: v.picklist(["person", "timer", "event"]) }),
        v.title("StepSuspension"),
      ),
    ),
    nextAttemptAt: v.optional(Time),
    count: v.optional(IterationCount),
    redacted: v.optional(v.literal(true)),
    parent: v.nullable(v.string()),
  }),
  v.title("StepView"),
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
      stepType: v.optional(v.string()),
      attempt: v.optional(Count),
      status: v.optional(v.picklist(["success", "skipped", ...executionStatuses])),
      suspension: v.optional(EventSuspension),
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
