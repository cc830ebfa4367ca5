import * as v from "valibot";
import { defineRoute, type Route } from "../../http/route.ts";
import { toSummary, type WorkflowDetail } from "../describe.ts";
import { findWorkflow, type Workflows } from "../find.ts";
import { DetailShape, SummaryShape } from "./shapes.ts";
import { unknownWorkflow } from "./errors.ts";
import type { WorkflowRoutesOptions } from "./replies.ts";

/** The routes about workflows themselves. */
export function definitionRoutes({ engine }: WorkflowRoutesOptions): readonly Route<Workflows>[] {
  return [
    defineRoute({
      method: "GET",
      path: "/workflows",
      summary: "List workflows",
      description:
        "Each with the number of its steps. The status is `running` while an execution of the workflow runs.",
      access: "public",
      responses: { 200: v.array(SummaryShape) },
      handle: ({ snapshot }) => [...snapshot.workflows.values()].map(({ detail }) => toSummary(withStatus(detail))),
    }),
    defineRoute({
      method: "GET",
      path: "/workflows/:id",
      summary: "Get a workflow, its steps and its schemas",
      description: "The schemas are JSON Schema. A schema that the workflow does not have is null.",
      access: "public",
      responses: { 200: DetailShape },
      errors: unknownWorkflow,
      handle: ({ params, snapshot }) => withStatus(findWorkflow(snapshot, params.id).detail),
    }),
  ];

  function withStatus(detail: WorkflowDetail): WorkflowDetail {
    return { ...detail, status: engine.isRunning(detail.id) ? "running" : "idle" };
  }
}
