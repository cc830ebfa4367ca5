import type { Caller, Identity } from "../core/caller.ts";
import { cut } from "../core/cut.ts";
import { badRequest, notFound, ServeError } from "../core/error.ts";
import { newId } from "../core/id.ts";
import { toJsonText, type JsonText } from "../core/json.ts";
import { validate, type Schema } from "../core/schema.ts";
import { currentSpan } from "../core/trace.ts";
import { applyIdentity, type Claims } from "../core/caller.ts";
import type { Step, WorkflowDefinition } from "../engine/definition.ts";
import { findMismatch, hasSameSteps } from "../engine/compare-steps.ts";
import type { Engine, Program, Resume } from "../engine/backend.ts";
import type { Execution, ExecutionState } from "../engine/execution.ts";

/** A workflow of a snapshot that can be executed. */
export interface Runnable extends Program {
  readonly definition: WorkflowDefinition;
}
export interface BeginOptions extends Claims {
  readonly executionId?: string | undefined;
}

/**
 * Starts an execution. The request is validated first. Once started, the execution continues even if the request ends.
 * `isAwaited`: the caller is told the id with the result.
 */
export async function begin(
  engine: Engine,
  runnable: Runnable,
  input: unknown,
  options: BeginOptions = {},
  identity: Identity,
  isAwaited = false,
): Promise<Execution> {
  const { definition, steps } = runnable;
  const id = options.executionId === undefined ? (isAwaited ? "awaited" : "fresh") : undefined;
  const execution: Execution = {
    id: options.executionId ?? newId(),
    workflowId: definition.id,
    input: await checkInput(definition.inputSchema, input),
    ...applyIdentity(options, identity),
    trace: currentSpan(),
    startAt: engine.clock.now(),
    steps,
  };
  const { created } = await engine.begin(execution, runnable, id);
  if (!created) throw new ServeError(409, `Execution ${execution.id} already exists`);
  return execution;
}

async function checkInput(schema: Schema | undefined, input: unknown): Promise<JsonText> {
  if (input === undefined) throw invalidInput("input is required");
  if (!schema && (typeof input !== "object" || input === null || Array.isArray(input)))
    throw invalidInput("expected an object");
  const result = schema ? await validate(schema, input) : { value: input };
  if ("problem" in result) throw invalidInput(result.problem);
  return toText(result.value, "input", invalidInput) ?? "null";
}

export async function suspend(
  engine: Engine,
  state: ExecutionState,
  reason = "Suspended by request",
): Promise<ExecutionState> {
  const { id } = state.execution;
  const suspended = await engine.suspend(id, reason);
  if (!suspended) throw badRequest(`Execution ${id} is not running`);
  return suspended;
}

export async function cancel(
  engine: Engine,
  state: ExecutionState,
  reason = "Cancelled by request",
): Promise<ExecutionState> {
  const { id } = state.execution;
  const cancelled = await engine.cancel(id, reason);
  if (!cancelled) throw badRequest(`Execution ${id} has already ended`);
  return cancelled;
}

/** Resumes a suspended execution and returns its new state. One resume per suspension succeeds. Others get 404. */
export async function resume(
  engine: Engine,
  runnable: Runnable,
  state: ExecutionState,
  asked: { resumeData?: unknown; stepId?: string | undefined },
  by?: Caller,
): Promise<ExecutionState> {
  const { id } = state.execution;
  const notSuspended = () => notFound(`Execution ${id} is not suspended`);
  if (state.status !== "suspended") throw notSuspended();
  await checkCode(engine, runnable, state.execution);
  const how: Resume = {
    stepId: asked.stepId,
    by,
    trace: currentSpan(),
    data: await checkResume(runnable.definition, state, asked),
  };
  const resumed = await engine.resume(id, state.epoch, how, runnable);
  if (!resumed) throw notSuspended();
  return resumed;
}

/** Rejects a resume if the workflow has changed. The steps that have started must still exist, in the same order. */
async function checkCode(engine: Engine, { steps }: Runnable, execution: Execution): Promise<void> {
  if (hasSameSteps(execution.steps, steps)) return;
  const started = await engine.startedSteps(execution.id);
  const change = started && findMismatch(execution.steps, steps, started);
  if (change) throw new ServeError(409, `Workflow changed: ${change}`);
}

/** Validates the data for the step that continues or runs again. */
async function checkResume(
  definition: WorkflowDefinition,
  { last }: ExecutionState,
  { resumeData, stepId }: { resumeData?: unknown; stepId?: string | undefined },
): Promise<JsonText | undefined> {
  if (last?.to !== "suspended") return undefined;
  const { pending, position } = last;
  // The execution was suspended by request and the resume names no step, so no step waits for data.
  if (pending.length === 0 && stepId === undefined) return undefined;
  const parked = stepId === undefined ? pending[0] : pending.find((one) => one.stepId === stepId);
  const at = pending[0]?.stepIndex ?? position?.stepIndex ?? 0;
  const index = definition.steps.findIndex((step) => step.id === stepId);
  if (!parked && (index < 0 || index > at))
    throw badRequest(`This execution cannot resume from step ${cut(stepId ?? "")}`);
  const schema = resumeSchemaOf(definition, parked?.stepId ?? stepId ?? "");
  const result = schema ? await validate(schema, resumeData) : { value: resumeData };
  if ("problem" in result) throw invalidResume(resumeData === undefined ? "resumeData is required" : result.problem);
  return toText(result.value, "resumeData", invalidResume);
}

/** Returns the resume schema of a step: its own, else that of its workflow, else that of the workflow around it. */
function resumeSchemaOf(definition: WorkflowDefinition, path: string): Schema | undefined {
  const [head = "", ...rest] = path.split("/");
  const step = findStep(definition.steps, head);
  const inner = step?.workflow && rest.length > 0 ? resumeSchemaOf(step.workflow, rest.join("/")) : step?.resumeSchema;
  return inner ?? definition.resumeSchema;
}

function findStep(steps: readonly Step[], id: string): Step | undefined {
  for (const step of steps) {
    const found = step.id === id ? step : step.workflow ? undefined : findStep(step.steps ?? [], id);
    if (found) return found;
  }
  return undefined;
}

const invalidInput = (detail: string): ServeError => badRequest(`Input validation failed: ${detail}`);
const invalidResume = (detail: string): ServeError => badRequest(`Invalid resume data: ${detail}`);

function toText(value: unknown, what: string, fail: (detail: string) => ServeError): JsonText | undefined {
  try {
    return toJsonText(value, what);
  } catch (error) {
    throw error instanceof TypeError ? fail(error.message) : error;
  }
}
