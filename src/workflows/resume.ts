import type { Caller } from "../core/caller.ts";
import { cut } from "../core/cut.ts";
import { badRequest, notFound, ServeError } from "../core/error.ts";
import type { JsonText } from "../core/json.ts";
import { validate, type Schema } from "../core/schema.ts";
import { currentSpan } from "../core/trace.ts";
import type { Engine } from "../engine/contract/engine.ts";
import type { WorkflowDefinition } from "../engine/definition/definition.ts";
import type { ExecutionState, Transition } from "../engine/execution.ts";
import { readSteps } from "../engine/steps/read-steps.ts";
import { isForPerson } from "../engine/walk/pending.ts";
import { checkCode, toText, type Runnable } from "./executions.ts";
import { findStep } from "./find-step.ts";
import { findBranch, findWaiting, type WaitingBranch } from "./parked-branch.ts";
import { toDescribed } from "./history/former-executions.ts";

interface ResumeRequest {
  readonly resumeData?: unknown;
  readonly stepId?: string | undefined;
}

/**
 * Resumes a suspended execution and returns its new state. One resume of a branch succeeds, and only while no other branch
 * runs. Others get 404.
 */
export async function resume(
  engine: Engine,
  runnable: Runnable,
  state: ExecutionState,
  asked: ResumeRequest,
  by?: Caller,
): Promise<ExecutionState> {
  const { execution, epoch } = state;
  const { id } = execution;
  const { definition } = runnable;
  const { branch, data } = await checkResume(engine, runnable, state, asked);
  const how = { stepId: branch?.stepId ?? asked.stepId, branch: branch?.key, by, trace: currentSpan(), data };
  const resumed = await engine.resume(id, epoch, how, runnable);
  if (resumed) return resumed;
  const now = (await engine.state(id)) ?? state;
  // Another branch was first. This one may still wait: its resume is repeated on the newer state.
  const waiting = branch && now.epoch !== epoch && (await findWaiting(engine, definition, now, branch.stepId));
  if (!waiting || waiting.key !== branch.key) throw await notSuspended(engine, now);
  return resume(engine, runnable, now, { ...asked, stepId: branch.stepId }, by);
}

/** Checks whether a suspended execution can be resumed, and with which data. Rejects with the error of the resume if it cannot. */
export async function checkResume(
  engine: Engine,
  runnable: Runnable,
  state: ExecutionState,
  asked: ResumeRequest,
): Promise<{ readonly branch: WaitingBranch | undefined; readonly data: JsonText | undefined }> {
  const { execution, last } = state;
  const { definition } = runnable;
  if (state.status !== "suspended" || last?.to !== "suspended") throw await notSuspended(engine, state);
  await checkCode(engine, runnable, execution);
  const branch = await findBranch(engine, definition, state, asked.stepId);
  return { branch, data: await checkData(definition, last, branch, asked) };
}

/** The 404 for an execution that cannot be resumed now. If it is running, the message names the waiting steps. */
async function notSuspended(engine: Engine, { execution, status }: ExecutionState): Promise<ServeError> {
  const { id } = execution;
  if (status !== "running") return notFound(`Execution ${id} is not suspended`);
  const steps = await readSteps(engine, toDescribed(execution), { status: "suspended" });
  const waiting = steps.filter(({ suspension }) => suspension?.kind === "person").map(({ node }) => node.path);
  if (waiting.length === 0) return notFound(`Execution ${id} is running: no step waits for an answer`);
  const more = waiting.length > maxNamed ? ` and ${waiting.length - maxNamed} more` : "";
  const names = cut(waiting.slice(0, maxNamed).join(", ")) + more;
  return notFound(`Execution ${id} is running: ${names} can be resumed when no other step is running`);
}

/** Max waiting steps that an error names. */
const maxNamed = 5;

/** Validates the data for the step that continues or runs again. */
async function checkData(
  definition: WorkflowDefinition,
  { pending, position }: Transition & { to: "suspended" },
  branch: WaitingBranch | undefined,
  { resumeData, stepId }: ResumeRequest,
): Promise<JsonText | undefined> {
  // The execution was suspended by request and the resume names no step, so no step waits for data.
  if (pending.length === 0 && stepId === undefined) return undefined;
  if (branch && !isForPerson(branch)) return undefined; // the wait is skipped
  const at = pending[0]?.stepIndex ?? position?.stepIndex ?? 0;
  const index = definition.steps.findIndex((step) => step.id === stepId);
  if (!branch && (index < 0 || index > at))
    throw badRequest(`This execution cannot resume from step ${cut(stepId ?? "")}`);
  const schema = resumeSchemaOf(definition, branch?.stepId ?? stepId ?? "");
  const result = schema ? await validate(schema, resumeData) : { value: resumeData };
  if ("problem" in result) throw invalidResume(resumeData === undefined ? "resumeData is required" : result.problem);
  return toText(result.value, "resumeData", invalidResume);
}

/**
 * Returns the resume schema of a step, else of the innermost workflow around it with one. A removed step gets the
 * schema of the workflow.
 */
function resumeSchemaOf(definition: WorkflowDefinition, path: string): Schema | undefined {
  const { step, workflows = [definition] } = findStep(definition, path) ?? {};
  return [step, ...workflows].find((one) => one?.resumeSchema)?.resumeSchema;
}

const invalidResume = (detail: string): ServeError => badRequest(`Invalid resume data: ${detail}`);
