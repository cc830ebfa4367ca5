import { applyIdentity, type Caller, type Identity } from "../core/caller.ts";
import { cut } from "../core/cut.ts";
import { badRequest, ServeError } from "../core/error.ts";
import { newId } from "../core/id.ts";
import { currentSpan } from "../core/trace.ts";
import type { Engine, HistoryRow } from "../engine/contract/engine.ts";
import type { Execution, ExecutionState } from "../engine/execution.ts";
import { planFork, toCopiedRows } from "../engine/fork.ts";
import type { ForkOptions, StepCaller } from "../engine/runtime.ts";
import type { JournalRow } from "../engine/runs/journal-row.ts";
import { toOrigin, toOwnId } from "./children.ts";
import { toDescribed } from "./history/former-executions.ts";
import {
  checkCode,
  checkInput,
  toExecution,
  checkStarted,
  type Origin,
  type Runnable,
  type StartedExecution,
} from "./executions.ts";

/** Retries a failed execution and returns its new state. One retry per failure succeeds. Others get 409. */
export async function retry(
  engine: Engine,
  runnable: Runnable,
  state: ExecutionState,
  by?: Caller,
): Promise<ExecutionState> {
  const { id } = state.execution;
  const notFailed = (): ServeError => new ServeError(409, `Execution ${id} has not failed`);
  if (!state.last || !("error" in state.last)) throw notFailed();
  await checkCode(engine, runnable, state.execution);
  const retried = await engine.retry(id, state.epoch, { by, trace: currentSpan() }, runnable);
  if (!retried) throw notFailed();
  return retried;
}

/**
 * Starts a new execution with the results of another one, for the caller. Without an identity, for the user of the original,
 * which does not change.
 */
export async function fork(
  engine: Engine,
  runnable: Runnable,
  state: ExecutionState,
  { fromStep, input, executionId = newId(), ...origin }: ForkOptions & Origin,
  identity?: Identity,
): Promise<StartedExecution> {
  const original = state.execution;
  if (state.status === "running") throw new ServeError(409, `Execution ${original.id} is running`);
  if (fromStep !== undefined && input !== undefined)
    throw badRequest("Invalid request body: input: expected no input with fromStep");
  const { inputSchema } = runnable.definition;
  const checked = input === undefined ? original.input : await checkInput(inputSchema, input);
  const history = input === undefined ? await readBegunSteps(engine, original) : noHistory;
  const stepIndex = input === undefined ? toStepIndex(runnable, state, history, fromStep) : 0;
  const rows = toCopiedRows(toDescribed(original).steps, history.rows, stepIndex);
  const { id: from, context, conversationId, userId, user } = original;
  const startAt = Math.min(original.fork?.startAt ?? original.startAt, rows[0]?.row.at ?? Infinity);
  const execution = toExecution(engine, runnable, {
    id: executionId,
    input: checked,
    call: identity
      ? applyIdentity({ context, conversationId, userId }, identity)
      : { context, conversationId, userId, user },
    fork: { from, stepIndex, startAt },
    ...origin,
  });
  const source = await planFork(execution, runnable.createWalk, from, rows);
  return checkStarted(execution, await engine.fork(execution, runnable, source));
}

/**
 * Starts a fork for a step, and returns its id. A step that runs again finds its fork. Throws a 409 if it is a fork of
 * another execution.
 */
export async function forkOnce(
  engine: Engine,
  step: Pick<StepCaller, "execution" | "idempotencyKey">,
  { name, runnable, state, options }: { name: string; runnable: Runnable; state: ExecutionState; options: ForkOptions },
): Promise<string> {
  const executionId = toOwnId("child", step, `fork${name}`);
  const known = (await engine.state(executionId))?.execution;
  if (known && known.fork?.from !== state.execution.id)
    throw new ServeError(409, `This step has started fork ${name.slice(1)} of another execution`);
  if (!known) await fork(engine, runnable, state, { ...options, executionId, ...toOrigin(step, state.execution) });
  return executionId;
}

/** The index of the step that a fork begins with. */
function toStepIndex({ definition }: Runnable, state: ExecutionState, history: History, fromStep?: string): number {
  const indexOf = (id: string | undefined): number => definition.steps.findIndex((step) => step.id === id);
  if (fromStep === undefined) return Math.max(0, indexOf(toStop(state, history)));
  const index = indexOf(fromStep);
  if (index < 0 || !history.begun.has(fromStep))
    throw badRequest(`Execution ${state.execution.id} cannot be forked from step ${cut(fromStep)}`);
  return index;
}

/** The top-level step that failed or waits. */
function toStop({ execution, status, last }: ExecutionState, { open }: History): string | undefined {
  if (last?.to !== "suspended") return status === "error" ? [...open].at(-1) : undefined;
  const { stepIndex } = last.pending[0] ?? last.position ?? {};
  return stepIndex === undefined ? undefined : topSteps(execution)[stepIndex];
}

/** The rows of an execution, its started top-level steps, and the incomplete ones among them. */
interface History {
  readonly rows: readonly JournalRow[];
  readonly begun: ReadonlySet<string>;
  readonly open: ReadonlySet<string>;
}
const noHistory: History = { rows: [], begun: new Set(), open: new Set() };

async function readBegunSteps(engine: Engine, execution: Execution): Promise<History> {
  const top = topSteps(execution);
  const rows: JournalRow[] = [];
  const begun = new Set(top.slice(0, execution.fork?.stepIndex ?? 0)); // a fork has no own events of those
  const open = new Set<string>();
  const read = ({ row, events }: HistoryRow): void => {
    if (row) rows.push(row);
    for (const { type, from = "" } of events) {
      const index = top.indexOf(from);
      if (index < 0) continue;
      if (type === "step-complete") open.delete(from);
      if (type !== "step-start") continue;
      // A resume that went back left the later steps.
      for (const later of top.slice(index + 1)) if (begun.delete(later)) open.delete(later);
      begun.add(from);
      open.add(from);
    }
  };
  for await (const page of engine.history(execution.id)) page.forEach(read);
  return { rows, begun, open };
}

const topSteps = ({ steps }: Execution): string[] => steps.filter(([, , depth]) => depth === 0).map(([path]) => path);
