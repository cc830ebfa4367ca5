import * as v from "valibot";
import { Prefer } from "../../http/input.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import { findContinuable, findStartable, type Workflows } from "../find.ts";
import { fork, retry } from "../repair.ts";
import { ResultShape } from "./shapes.ts";
import { cannotBegin, cannotStart, failedExecution, refusedByStep, unknownExecution } from "./errors.ts";
import { OwnExecutionId } from "../start-options.ts";
import { about, holdUntilSettled, settle, StartedShape, type WorkflowRoutesOptions } from "./replies.ts";

const ForkBody = v.pipe(
  v.object({
    fromStep: v.optional(v.string()),
    input: v.optional(v.unknown()), // validated by `fork()`
    options: v.optional(v.object({ executionId: OwnExecutionId })),
  }),
  v.title("ForkRequest"),
);

/** The routes that repair an execution. */
export function repairRoutes(options: WorkflowRoutesOptions): readonly Route<Workflows>[] {
  const { engine } = options;
  return [
    defineRoute({
      method: "POST",
      path: "/workflows/:id/executions/:executionId/retry",
      summary: "Retry a failed execution and wait until it ends or suspends",
      description:
        "The steps that failed run again, and those that were aborted because of it. Recorded results stay. With `Prefer: respond-async` the response is a 202.",
      access: "protected",
      yields: true,
      action: "execution.retry",
      headers: { Prefer },
      responses: { 200: ResultShape, 202: StartedShape },
      errors: {
        ...unknownExecution,
        409: "The execution has not failed or was cancelled, or its workflow has changed",
        500: failedExecution,
        ...cannotBegin,
        default: refusedByStep,
      },
      find: (head) => findContinuable(engine, head),
      async handle({ params: { executionId: id }, identity, found: { workflow, state }, ...head }) {
        const { epoch } = await about(id, retry(engine, workflow, state, identity.caller));
        return settle(options, { id, epoch }, head);
      },
    }),
    defineRoute({
      method: "POST",
      path: "/workflows/:id/executions/:executionId/fork",
      summary: "Start a new execution with the results of this one, and wait until it ends or suspends",
      description:
        "`fromStep` is the first step that runs: a top-level step that has begun. Default: the step that failed or waits, else the first. With `input` the new execution begins with the first step. This execution does not change.",
      access: "protected",
      yields: true,
      action: "execution.fork",
      headers: { Prefer },
      body: ForkBody,
      responses: { 200: ResultShape, 202: StartedShape },
      errors: {
        ...unknownExecution,
        409: "The execution is running, its workflow has changed, the new execution already exists, or was cancelled",
        500: failedExecution,
        ...cannotStart,
        default: refusedByStep,
      },
      find: (head) => findContinuable(engine, head),
      async handle({ params, body, identity, snapshot, found: { workflow, state }, hold, ...head }) {
        const { fromStep, input } = body;
        if (input !== undefined) await findStartable({ action: "workflow.execute", params, identity, snapshot });
        const asked = { fromStep, input, executionId: body.options?.executionId };
        const { id } = await holdUntilSettled(engine, hold(), fork(engine, workflow, state, asked, identity));
        return settle(options, { id }, head);
      },
    }),
  ];
}
