import { createHash } from "node:crypto";
import { findAgent } from "../agents/find-agent.ts";
import type { ToolStart, ToolTargets } from "../agents/tools/outside.ts";
import type { Snapshot } from "../config/snapshot.ts";
import { admit, forbidden } from "../core/authorizer.ts";
import { notFound, ServeError } from "../core/error.ts";
import { fromJsonText } from "../core/json.ts";
import type { Engine } from "../engine/backend.ts";
import type { ExecutionState } from "../engine/execution.ts";
import { beginOnce } from "../workflows/children.ts";
import { findWorkflow } from "../workflows/find.ts";
import { untilDone } from "../workflows/handle.ts";
import { toError, type ShowErrors } from "../workflows/results.ts";
import { actingFor } from "./runtime.ts";

export interface ToolTargetsParts {
  readonly engine: Engine;
  /** Returns the version of the config that is served now. */
  readonly snapshot: () => Snapshot;
  readonly showErrors: ShowErrors;
}

/** Creates the means of tools to start workflows and to ask agents, for the user of the call. */
export function createToolTargets({ engine, snapshot, showErrors }: ToolTargetsParts): ToolTargets {
  return {
    findWorkflow: (id) => snapshot().workflows.get(id)?.definition,
    findAgent: (id) => snapshot().agents.get(id)?.definition,
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
      await persist(() => begin(start, id));
      return toOutput(await wait.waitOutside(() => persist(() => engine.settled(id, 0, signal))), showErrors);
    },
  };

  async function begin({ workflowId, input, call, step }: ToolStart, id: string): Promise<void> {
    const version = snapshot();
    const release = version.hold("request");
    try {
      const { userId, user, conversationId, context } = call;
      const child = {
        runnable: findWorkflow(version, workflowId),
        input,
        call: { userId, user, conversationId, context },
      };
      await beginOnce(engine, id, child, step && { id: step.execution.id });
    } finally {
      release();
    }
  }
}

/** Returns the id of the execution of a tool call: the same when the turn is repeated. */
function toChildId({ key, step }: ToolStart): string {
  // An execution id can be reused after retention has deleted the execution. `startAt` makes the text unique.
  const text = `${step?.execution.startAt ?? "turn"} ${key}`;
  return `child:${createHash("sha256").update(text).digest("base64url").slice(0, 22)}`;
}

/** Returns the result of an execution. Throws the error that its state shows to clients. */
function toOutput({ execution: { id }, last }: ExecutionState, showErrors: ShowErrors): unknown {
  if (last?.to === "completed") return fromJsonText(last.result) ?? null;
  if (last?.to === "suspended") throw new ServeError(409, `Execution ${id} is suspended: ${last.reason}`);
  if (last && "cancellation" in last) throw new ServeError(409, `Execution ${id} was cancelled`);
  if (last && "error" in last) throw new ServeError(500, toError(last.error, showErrors));
  throw notFound(`Execution ${id} not found`);
}
