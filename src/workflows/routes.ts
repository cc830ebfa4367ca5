import * as v from "valibot";
import { notFound } from "../core/error.ts";
import { stepTypes, type WorkflowDefinition } from "../engine/definition.ts";
import { defineRoute, type Route } from "../http/route.ts";
import { toSummary, type StepDetail, type WorkflowDetail } from "./describe.ts";

/** What the routes need of a snapshot. */
export interface Workflows {
  readonly workflows: ReadonlyMap<string, RegisteredWorkflow>;
}
export interface RegisteredWorkflow {
  readonly definition: WorkflowDefinition;
  readonly detail: WorkflowDetail;
}

const JsonSchema = v.record(v.string(), v.unknown());
const StepShape: v.GenericSchema<StepDetail> = v.pipe(
  v.object({
    id: v.string(),
    name: v.string(),
    type: v.picklist(stepTypes),
    purpose: v.string(),
    inputSchema: v.optional(JsonSchema),
    outputSchema: v.optional(JsonSchema),
    suspendSchema: v.optional(JsonSchema),
    resumeSchema: v.optional(JsonSchema),
    steps: v.optional(v.array(v.lazy(() => StepShape))),
  }),
  v.title("Step"),
);
const Summary = v.object({
  id: v.string(),
  name: v.string(),
  purpose: v.string(),
  stepsCount: v.pipe(v.number(), v.integer(), v.minValue(0)),
  status: v.picklist(["idle", "running", "suspended", "completed", "error"]),
});
const Detail = v.object({
  ...Summary.entries,
  steps: v.array(StepShape),
  inputSchema: JsonSchema,
  suspendSchema: v.nullable(JsonSchema),
  resumeSchema: v.nullable(JsonSchema),
});

export const workflowRoutes: readonly Route<Workflows>[] = [
  defineRoute({
    method: "GET",
    path: "/workflows",
    summary: "List the workflows",
    access: "public",
    responses: { 200: v.array(Summary) },
    handle: ({ snapshot }) => [...snapshot.workflows.values()].map(({ detail }) => toSummary(detail)),
  }),
  defineRoute({
    method: "GET",
    path: "/workflows/:id",
    summary: "Show a workflow, its steps and its schemas",
    access: "public",
    responses: { 200: Detail },
    errors: { 404: "No workflow has this id" },
    handle: ({ params, snapshot }) => findWorkflow(snapshot, params.id).detail,
  }),
];

function findWorkflow({ workflows }: Workflows, id: string): RegisteredWorkflow {
  const workflow = workflows.get(id);
  if (!workflow) throw notFound(`Workflow ${id} not found`);
  return workflow;
}
