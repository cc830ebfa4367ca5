import { createHash } from "node:crypto";
import { findAgent } from "../../agents/find-agent.ts";
import { type Snapshot, withVersion } from "../../config/snapshot.ts";
import { SuspendedCall } from "../../agents/tools/no-result.ts";
import { admit, forbidden } from "../../core/access/authorizer.ts";
import type { CallContext, Caller } from "../../core/caller.ts";
import type { ExecutionState } from "../../engine/execution.ts";
import { checkStep, mayAct } from "../../workflows/access.ts";
import { resume, checkResume } from "../../workflows/resume.ts";
import type { ExecutionEnd, ToolStart, ToolTargets } from "../../agents/tools/outside.ts";
import { notFound } from "../../core/error.ts";
import { fromJsonText } from "../../core/json.ts";
import type { Engine } from "../../engine/contract/engine.ts";
import { beginOnce, toOrigin } from "../../workflows/children.ts";
import { findWorkflow } from "../../workflows/find.ts";
import { untilDone } from "../../workflows/handle.ts";
import { toError, toResult, type ShowErrors } from "../../workflows/results.ts";
import { actingFor } from "./acting-for.ts";

export interface ToolTargetsParts {
  readonly engine: Engine;
  /** Returns the version of the config that is served now. */
  readonly snapshot: () => Snapshot;
  readonly showErrors: ShowErrors;
}

/** An execution that a call may resume. */
interface Resumable {
  readonly workflow: ReturnType<typeof findWorkflow>;
  readonly state: ExecutionState;
  readonly caller: Caller | undefined;
}

/** Creates the means of tools to start workflows and to ask agents, for the user of the call. */
export function createToolTargets(parts: ToolTargetsParts): ToolTargets {
  const { engine, snapshot, showErrors } = parts;
  return {
    findWorkflow: (id) => snapshot().workflows.get(id)?.definition,
    findAgent: (id) => snapshot().agents.get(id),
    async admit(call, { kind, id, anonymous }) {
      const version = snapshot();
      const identity = actingFor(call);
      if (kind === "workflow") findWorkflow(version, id);
      else findAgent(version, id);
      if (version.config.auth && !identity.caller && !anonymous) throw forbidden();
      const about = kind === "workflow" ? { workflowId: id } : { agentId: id };
      const action = kind === "workflow" ? "workflow.execute" : "agent.call";
      await admit({ action, identity, snapshot: version }, undefined, about);
    },
    async run(start) {
      const id = toChildId(start);
      const { signal, step, isDurable } = start;
      const wait = { signal, waitOutside: step?.waitOutside ?? (<T>(work: () => Promise<T>) => work()) };
      const persist = <T>(work: () => Promise<T>): Promise<T> => (isDurable ? untilDone(wait, work) : work());
      await persist(() => begin(parts, start, id));
      start.onBegun(id);
      return toEnd(await wait.waitOutside(() => persist(() => engine.settled(id, 0, signal))), showErrors);
    },
    async read(id) {
      const state = await engine.state(id);
      if (!state) return { error: `Execution ${id} no longer exists` };
      const end = state.status === "running" ? undefined : toEnd(state, showErrors);
      return end instanceof SuspendedCall ? undefined : end;
    },
    checkResume: (id, resumeData, call) =>
      withSuspended(id, call, async ({ workflow, state }) => {
        await checkResume(engine, workflow, state, { resumeData });
      }),
    resume: (id, resumeData, call) =>
      withSuspended(id, call, async ({ workflow, state, caller }) => {
        const { epoch } = await resume(engine, workflow, state, { resumeData }, caller);
        return { settled: async (signal) => toEnd(await engine.settled(id, epoch, signal), showErrors) };
      }),
  };

  /** Works with an execution that the user of a call may resume. */
  function withSuspended<T>(id: string, call: CallContext, work: (found: Resumable) => Promise<T>): Promise<T> {
    return withVersion(snapshot(), async (version) => {
      const identity = actingFor(call);
      const state = await engine.state(id);
      const request = { action: "execution.resume", identity, snapshot: version } as const;
      if (!state || !(await mayAct(request, state))) throw notFound(`Execution ${id} not found`);
      await checkStep(request, state);
      const workflow = findWorkflow(version, state.execution.workflowId);
      return work({ workflow, state, caller: identity.caller });
    });
  }
}

function begin(
  { engine, snapshot }: ToolTargetsParts,
  { workflowId, input, call, step }: ToolStart,
  id: string,
): Promise<void> {
  return withVersion(snapshot(), async (version) => {
    const { userId, user, conversationId, context } = call;
    const runnable = findWorkflow(version, workflowId);
    const child = { runnable, input, call: { userId, user, conversationId, context } };
    await beginOnce(engine, id, child, step && toOrigin(step, call));
  });
}

/** Returns the execution id of a tool call: the same when the turn is repeated. */
function toChildId({ key, step }: ToolStart): string {
  // An execution id can be reused after retention has deleted the execution. `startAt` makes the text unique.
  const text = `${step?.execution.startAt ?? "turn"} ${key}`;
  return `child:${createHash("sha256").update(text).digest("base64url").slice(0, 22)}`;
}

/** Returns the result of an execution, or the error that its state shows to clients. */
function toEnd(state: ExecutionState, showErrors: ShowErrors): ExecutionEnd | SuspendedCall {
  const { last } = state;
  const { id } = state.execution;
  if (last?.to === "completed") return { output: fromJsonText(last.result) ?? null };
  if (last?.to === "suspended") return new SuspendedCall(id, toResult(state).suspension!); // it is suspended
  if (last && "cancellation" in last) return { error: `Execution ${id} was cancelled` };
  return { error: last && "error" in last ? toError(last.error, showErrors) : "" };
}
