import { admit, type ActionRequest, type Authorized } from "../core/access/authorizer.ts";
import { cut } from "../core/cut.ts";
import { notFound, ServeError } from "../core/error.ts";
import type { JsonSchema } from "../core/schemas/json-schema.ts";
import type { Engine, ListFilter } from "../engine/contract/engine.ts";
import type { ExecutionState } from "../engine/execution.ts";
import { mayAct, type Visible } from "./access.ts";
import type { WorkflowDetail } from "./describe.ts";
import type { Runnable } from "./executions.ts";
import { listReadable, type ReadablePage } from "./lists/readable-page.ts";

/** The part of a snapshot that the routes read. */
export interface Workflows extends Authorized {
  readonly workflows: ReadonlyMap<string, RegisteredWorkflow>;
  /** Aborted when another version of the config replaces this one. */
  readonly retiring: AbortSignal;
}
export interface RegisteredWorkflow extends Runnable {
  readonly detail: WorkflowDetail;
  /** The schema of the result. Only `/doc` shows it. */
  readonly resultSchema?: JsonSchema | undefined;
}

/** The workflow that a request names, and its caller. */
interface WorkflowRequest extends ActionRequest {
  readonly params: { readonly id: string };
  readonly snapshot: Workflows;
}
export interface ExecutionRequest extends WorkflowRequest {
  readonly params: { readonly id: string; readonly executionId: string };
}

export function findWorkflow({ workflows }: Workflows, id: string): RegisteredWorkflow {
  const workflow = workflows.get(id);
  if (!workflow) throw notFound(`Workflow ${cut(id)} not found`);
  return workflow;
}

/** Returns a workflow that the caller may start. Throws or rejects with 403 if `authorize` refuses it. */
export function findStartable(request: WorkflowRequest): RegisteredWorkflow | Promise<RegisteredWorkflow> {
  const { id } = request.params;
  return admit(request, findWorkflow(request.snapshot, id), { workflowId: id });
}

/**
 * Returns the state of an execution of this workflow, if the caller may do the action that the route names. Executions
 * outlive their workflow, so an unknown workflow is an error only if the execution is not found.
 */
export async function findExecution(engine: Engine, request: ExecutionRequest): Promise<ExecutionState> {
  const { id, executionId } = request.params;
  const state = await engine.state(executionId);
  if (state?.execution.workflowId === id) {
    const allowed = mayAct(request, state);
    if (allowed === true || (allowed !== false && (await allowed))) return state;
  }
  findWorkflow(request.snapshot, id);
  throw notFound(`Execution ${cut(executionId)} not found`);
}

/** Returns an execution whose workflow is registered, with that workflow. */
export async function findContinuable(
  engine: Engine,
  request: ExecutionRequest,
): Promise<{ readonly workflow: RegisteredWorkflow; readonly state: ExecutionState }> {
  const workflow = findWorkflow(request.snapshot, request.params.id);
  return { workflow, state: await findExecution(engine, request) };
}

/** Returns a page of the executions that the caller may read. An unknown workflow is an error only if it has none. */
export async function listExecutions(
  engine: Engine,
  request: WorkflowRequest,
  filter: Omit<ListFilter, "workflowId">,
): Promise<ReadablePage> {
  const { params, snapshot } = request;
  const visible = toVisible(request, filter.userId);
  const page = await list(filter);
  const isKnown = page.states.length > 0 || page.next !== undefined || snapshot.workflows.has(params.id);
  if (!isKnown && (await list({ limit: 1 })).states.length === 0) findWorkflow(snapshot, params.id);
  return page;

  function list(by: typeof filter): Promise<ReadablePage> {
    return listReadable(request, { ...by, workflowId: params.id }, visible, (asked) => engine.list(asked));
  }
}

/**
 * Returns the executions of a workflow that the caller may list where no `authorize` decides. Throws a 403 if there is
 * `ownership`, no `authorize`, and the filter names another user.
 */
function toVisible({ identity, snapshot }: ActionRequest, userId: ListFilter["userId"]): Visible {
  const { ownership, caller } = identity;
  if (!ownership) return { userId };
  if (userId !== undefined && userId !== caller?.userId && !snapshot.authorizer) throw new ServeError(403, "Forbidden");
  return caller?.userId === undefined ? undefined : { userId: caller.userId };
}
