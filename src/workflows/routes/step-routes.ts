import * as v from "valibot";
import { badRequest } from "../../core/error.ts";
import { stepStatuses } from "../../engine/steps/step-record.ts";
import { toDelays } from "../../engine/steps/select-steps.ts";
import { Reply } from "../../http/envelope.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import { wholeNumber } from "../../http/input.ts";
import { mayInspect } from "../access.ts";
import { findExecution, type Workflows } from "../find.ts";
import { KeptSteps } from "../history/kept-steps.ts";
import { StepViewShape } from "./shapes.ts";
import { listSteps } from "../history/step-views.ts";
import { cannotRead, unknownExecution } from "./errors.ts";
import { idHeader, type WorkflowRoutesOptions } from "./replies.ts";

const StepsQuery = v.object({
  status: v.optional(v.picklist(stepStatuses, `expected one of ${stepStatuses.join(", ")}`)),
  path: v.optional(v.string()),
  under: v.optional(v.string()),
  limit: v.optional(wholeNumber(1, 200, "expected 1 to 200")),
  cursor: v.optional(v.string()),
});

/** The route that shows the steps of an execution. */
export function stepRoutes({ engine, showErrors, findFrame }: WorkflowRoutesOptions): readonly Route<Workflows>[] {
  const kept = new KeptSteps();
  return [
    defineRoute({
      method: "GET",
      path: "/workflows/:id/executions/:executionId/steps",
      summary: "List the steps of an execution that have begun, in the order of begin",
      description:
        "`input`, `output` and the data of a suspension are present if the caller may inspect the execution. A value over 16 KB is `{ $truncated: true, bytes }`; with `path` the response has one step with its values whole. A loop has the `count` of its iterations by status; `under` lists the iterations of one loop and what they contain, `status` looks inside all loops. `cursor` is the `nextCursor` of the page before. In `dev`, a failed attempt has `frame`: the place in the project at which it failed, and the lines of code around it.",
      access: "protected",
      yields: true,
      action: "execution.read",
      query: StepsQuery,
      responses: { 200: v.object({ items: v.array(StepViewShape), nextCursor: v.nullable(v.string()) }) },
      errors: { ...unknownExecution, ...cannotRead },
      find: (head) => findExecution(engine, head),
      async handle(head) {
        const { found, query, params, snapshot } = head;
        const { status, path, under, limit = 200, cursor } = query;
        const filter = { status, path, under, limit, after: cursor === undefined ? undefined : fromStepCursor(cursor) };
        const showValues = await mayInspect(head, found, showErrors);
        const { steps, definition, createWalk } = snapshot.workflows.get(params.id) ?? {};
        const delayOf = definition && toDelays(definition, params.executionId);
        const frameOf = findFrame && ((key: string) => findFrame(params.executionId, key));
        const options = { engine, kept, showErrors, showValues, steps, createWalk, delayOf, frameOf };
        const { items, last } = await listSteps(found, filter, options);
        const nextCursor = last === undefined ? null : toStepCursor(last);
        return new Reply({ items, nextCursor }, { headers: idHeader(params.executionId) });
      },
    }),
  ];
}

// A cursor is opaque, so that it can change: a client must not compute one.
const toStepCursor = (order: number): string => Buffer.from(`step ${order}`).toString("base64url");

function fromStepCursor(cursor: string): number {
  const [, order] = /^step (\d{1,15})$/.exec(Buffer.from(cursor, "base64url").toString()) ?? [];
  if (!order) throw badRequest("Invalid query: cursor: expected the nextCursor of a previous response");
  return Number(order);
}
