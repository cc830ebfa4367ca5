import * as v from "valibot";
import { newId } from "../../core/id.ts";
import { Prefer } from "../../http/input.ts";
import { defineRoute, events, type Route } from "../../http/route.ts";
import { EventStream } from "../../http/sse.ts";
import { begin } from "../executions.ts";
import { findStartable, type Workflows } from "../find.ts";
import { EventShape, ResultShape } from "./shapes.ts";
import { StartOptionsShape } from "../start-options.ts";
import { cannotStart, failedExecution, refusedByStep, unknownWorkflow } from "./errors.ts";
import { follow, type EventViews } from "./follow.ts";
import { idHeader, holdUntilSettled, settle, StartedShape, type WorkflowRoutesOptions } from "./replies.ts";

const ExecuteBody = v.object({
  input: v.optional(v.unknown()), // validated by `begin()`, with the error messages of the spec
  options: v.optional(StartOptionsShape),
});

/** The routes that start an execution. */
export function startRoutes(options: WorkflowRoutesOptions): readonly Route<Workflows>[] {
  const { engine } = options;
  return [
    defineRoute({
      method: "POST",
      path: "/workflows/:id/execute",
      summary: "Run a workflow and wait until it ends or suspends",
      description:
        "The execution continues if the client disconnects. With `Prefer: respond-async` the response is a 202 with the id of the execution.",
      access: "protected",
      action: "workflow.execute",
      headers: { Prefer },
      body: ExecuteBody,
      responses: { 200: ResultShape, 202: StartedShape },
      errors: {
        ...unknownWorkflow,
        409: "The execution already exists, or was cancelled",
        500: failedExecution,
        ...cannotStart,
        default: refusedByStep,
      },
      find: findStartable,
      async handle({ found: workflow, body, identity, hold, ...head }) {
        const { id } = await holdUntilSettled(
          engine,
          hold(),
          begin(engine, workflow, body.input, body.options, identity),
        );
        return settle(options, { id }, head);
      },
    }),
    defineRoute({
      method: "POST",
      path: "/workflows/:id/stream",
      summary: "Run a workflow and stream its events until it ends or suspends",
      description: "The last event has the result. The execution continues if the client disconnects.",
      access: "protected",
      action: "workflow.execute",
      body: ExecuteBody,
      responses: { 200: events(EventShape) },
      errors: { ...unknownWorkflow, 409: "The execution already exists", ...cannotStart },
      find: findStartable,
      handle({ found: workflow, body, identity, hold }) {
        const isFresh = body.options?.executionId === undefined;
        const executionId = body.options?.executionId ?? newId();
        async function* run(signal: AbortSignal): EventViews {
          const happening = engine.events(executionId, 0, signal); // before the start, so that no event is missed
          await holdUntilSettled(
            engine,
            hold(),
            begin(engine, workflow, body.input, { ...body.options, executionId, isFresh }, identity),
          );
          yield* follow(options, happening, executionId, { signal });
        }
        return new EventStream(run, idHeader(executionId), { fields: { executionId } });
      },
    }),
  ];
}
