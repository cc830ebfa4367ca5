import type { Identity } from "../core/caller.ts";
import { cut } from "../core/cut.ts";
import { notFound } from "../core/error.ts";
import type { JsonSchema } from "../core/json-schema.ts";
import type { Engine, ListFilter, ListPage } from "../engine/backend.ts";
import type { ExecutionState } from "../engine/execution.ts";
import type { WorkflowDetail } from "./describe.ts";
import type { Runnable } from "./executions.ts";

/** The part of a snapshot that the routes read. */
export interface Workflows {
  readonly workflows: ReadonlyMap<string, RegisteredWorkflow>;
}
export interface RegisteredWorkflow extends Runnable {
  readonly detail: WorkflowDetail;
  /** The schema of the result. Only `/doc` shows it. */
  readonly resultSchema?: JsonSchema | undefined;
}

/** The part of a request that says which workflow is meant, and who asks. */
interface WorkflowRequest {
  readonly params: { readonly id: string };
  readonly identity: Identity;
  readonly snapshot: Workflows;
}
interface ExecutionRequest extends WorkflowRequest {
  readonly params: { readonly id: string; readonly executionId: string };
}

export function findWorkflow({ workflows }: Workflows, id: string): RegisteredWorkflow {
  const workflow = workflows.get(id);
  if (!workflow) throw notFound(`Workflow ${cut(id)} not found`);
  return workflow;
}

/**
 * Returns the state of an execution of this workflow that the caller may see. Executions outlive their workflow, so an
 * unknown workflow is an error only if the execution is not found.
 */
export async function findExecution(
  engine: Engine,
  { params, identity, snapshot }: ExecutionRequest,
): Promise<ExecutionState> {
  const { id, executionId } = params;
  const state = await engine.state(executionId);
  if (state?.execution.workflowId === id && isVisible(state, identity)) return state;
  findWorkflow(snapshot, id);
  throw notFound(`Execution ${cut(executionId)} not found`);
}

/** An execution without a user has no owner. */
function isVisible({ execution }: ExecutionState, { ownership, caller }: Identity): boolean {
  return !ownership || (caller?.userId !== undefined && caller.userId === execution.userId);
}

type Filter = Omit<ListFilter, "workflowId" | "userId">;

/** Returns a page of the executions that the caller may see. An unknown workflow is an error only if it has none. */
export async function listExecutions(
  engine: Engine,
  { params, identity, snapshot }: WorkflowRequest,
  filter: Filter,
): Promise<ListPage> {
  const page = await list(filter);
  const isKnown = page.states.length > 0 || snapshot.workflows.has(params.id);
  if (!isKnown && (await list({ limit: 1 })).states.length === 0) findWorkflow(snapshot, params.id);
  return page;

  async function list(by: Filter): Promise<ListPage> {
    if (!identity.ownership) return engine.list({ ...by, workflowId: params.id });
    const userId = identity.caller?.userId;
    if (userId === undefined) return { states: [], hasMore: false };
    return engine.list({ ...by, workflowId: params.id, userId });
  }
}
