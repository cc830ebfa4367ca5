import { setTimeout as sleep } from "node:timers/promises";
import type { Caller } from "../core/caller.ts";
import { notFound, ServeError } from "../core/error.ts";
import { fromJsonText } from "../core/json.ts";
import type { Engine } from "../engine/contract/engine.ts";
import { toCancellation } from "../engine/events.ts";
import type { ExecutionState } from "../engine/execution.ts";
import type { ExecutionHandle, ExecutionOutcome, StepCaller } from "../engine/runtime.ts";
import { toSuspension } from "../engine/suspension.ts";
import { cancel } from "./executions.ts";
import { findWorkflow, type Workflows } from "./find.ts";
import { toStateView } from "./results.ts";
import { resume } from "./resume.ts";

export interface HandleParts {
  readonly engine: Engine;
  /** Returns the workflows by which an execution is resumed. */
  readonly workflows: () => Workflows;
  /** The caller of a resume. */
  readonly caller: Caller | undefined;
  /** The step that has the handle. @default none */
  readonly step?: StepWait | undefined;
}

/** Returns the handle of an execution for code. Code is trusted: it sees the messages of all errors. */
export function createHandle<Result>(
  { engine, workflows, caller, step }: HandleParts,
  id: string,
): ExecutionHandle<Result> {
  let epoch = 0;
  const persist = <T>(work: () => Promise<T>): Promise<T> => (step ? untilDone(step, work) : work());
  async function read(): Promise<ExecutionState> {
    const state = await engine.state(id);
    if (!state) throw notFound(`Execution ${id} not found`); // removed by retention
    return state;
  }
  return {
    executionId: id,
    async result() {
      const settled = (): Promise<ExecutionState> => engine.settled(id, epoch, step?.signal);
      return toOutcome<Result>(await (step ? step.waitOutside(() => persist(settled)) : settled()));
    },
    state: async () => toStateView(await read(), true, true),
    async resume(resumeData, { stepId } = {}) {
      const state = await read();
      const workflow = findWorkflow(workflows(), state.execution.workflowId);
      ({ epoch } = await persist(() => resume(engine, workflow, state, { resumeData, stepId }, caller)));
    },
    async cancel(reason) {
      const state = await read();
      await persist(() => cancel(engine, state, reason));
    },
  };
}

/**
 * Does something for a step, again while the server is busy, shuts down or cannot reach its store: the step runs again after
 * a restart, and must not have failed by then. Between two tries it has no slot. Rejects when the step is aborted.
 */
export async function untilDone<T>({ signal, waitOutside }: StepWait, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || !(error instanceof ServeError) || error.status < 500) throw error;
      await waitOutside(() => sleep(againMs, undefined, { signal, ref: false }));
    }
  }
}
type StepWait = Pick<StepCaller, "signal" | "waitOutside">;
const againMs = 500;

function toOutcome<Result>({ execution: { id: executionId }, last }: ExecutionState): ExecutionOutcome<Result> {
  if (last?.to === "suspended") return { executionId, status: "suspended", suspension: toSuspension(last) };
  // The workflow has validated its result against its schema.
  if (last?.to === "completed")
    return { executionId, status: "completed", result: (fromJsonText(last.result) ?? null) as Result };
  if (last && "cancellation" in last) {
    const error = `Execution ${executionId} was cancelled`;
    return { executionId, status: "error", error, cancellation: toCancellation(last) };
  }
  return { executionId, status: "error", error: last && "error" in last ? last.error.message : "" };
}
