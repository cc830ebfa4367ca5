import * as v from "valibot";
import { Reply } from "../../http/envelope.ts";
import { Prefer } from "../../http/input.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import { checkStep } from "../access.ts";
import { cancel, suspend } from "../executions.ts";
import { findContinuable, findExecution, type Workflows } from "../find.ts";
import { toStateView, type SuspendResult } from "../results.ts";
import { resume } from "../resume.ts";
import { ResultShape, SuspendedShape } from "./shapes.ts";
import { cannotBegin, cannotWrite, failedExecution, refusedByStep, unknownExecution } from "./errors.ts";
import {
  about,
  idHeader,
  holdUntilSettled,
  settle,
  StartedShape,
  toReply,
  type WorkflowRoutesOptions,
} from "./replies.ts";

const ReasonBody = v.pipe(v.object({ reason: v.optional(v.string()) }), v.title("ReasonRequest"));
const ResumeBody = v.object({
  resumeData: v.optional(v.unknown()),
  options: v.optional(v.object({ stepId: v.optional(v.string()) })),
});

/** The routes that change an execution. */
export function commandRoutes(options: WorkflowRoutesOptions): readonly Route<Workflows>[] {
  const { engine, showErrors } = options;
  return [
    defineRoute({
      method: "POST",
      path: "/workflows/:id/executions/:executionId/suspend",
      summary: "Suspend a running execution; steps in flight finish",
      description: "A resume continues the execution.",
      access: "public",
      action: "execution.suspend",
      body: ReasonBody,
      responses: { 200: SuspendedShape },
      errors: { ...unknownExecution, ...cannotWrite },
      find: (head) => findContinuable(engine, head),
      async handle({ params, body, found }) {
        const state = await about(params.executionId, suspend(engine, found.state, body.reason));
        const { suspendedAt, reason } = toStateView(state, showErrors).suspension!;
        const data: SuspendResult = {
          executionId: params.executionId,
          status: "suspended",
          suspension: { suspendedAt, reason },
        };
        return new Reply(data, { headers: idHeader(params.executionId) });
      },
    }),
    defineRoute({
      method: "POST",
      path: "/workflows/:id/executions/:executionId/resume",
      summary: "Resume a suspended execution and wait until it ends or suspends again",
      description:
        "`resumeData` is checked against the resume schema of the step. `options.stepId` names the step to continue from. With `Prefer: respond-async` the response is a 202 as soon as the execution continues.",
      access: "public",
      action: "execution.resume",
      headers: { Prefer },
      body: ResumeBody,
      responses: { 200: ResultShape, 202: StartedShape },
      errors: {
        404: "Workflow not found, execution not found, or execution not suspended",
        409: "The execution was cancelled, or its workflow has changed",
        500: failedExecution,
        ...cannotBegin,
        default: refusedByStep,
      },
      find: (head) => findContinuable(engine, head),
      async handle({ action, params, body, identity, snapshot, found: { workflow, state }, hold, ...head }) {
        const { executionId: id } = params;
        const asked = { resumeData: body.resumeData, stepId: body.options?.stepId };
        if (snapshot.authorizer) await checkStep({ action, identity, snapshot }, state, asked.stepId);
        const resuming = about(id, resume(engine, workflow, state, asked, identity.caller));
        const resumed = resuming.then(({ epoch }) => ({ id, epoch }));
        return settle(options, await holdUntilSettled(engine, hold(), resumed), head);
      },
    }),
    defineRoute({
      method: "POST",
      path: "/workflows/:id/executions/:executionId/cancel",
      summary: "Cancel an execution; it cannot be resumed",
      description: "Steps in flight are aborted.",
      access: "protected",
      action: "execution.cancel",
      body: ReasonBody,
      responses: { 200: ResultShape },
      errors: { ...unknownExecution, ...cannotWrite },
      find: (head) => findExecution(engine, head),
      handle: async ({ found, body, params }) =>
        toReply(await about(params.executionId, cancel(engine, found, body.reason))),
    }),
  ];
}
