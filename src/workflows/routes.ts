import * as v from "valibot";
import { badRequest, clientLeft, ServeError } from "../core/error.ts";
import { idRule, isId, newId } from "../core/id.ts";
import type { Engine } from "../engine/backend.ts";
import type { ExecutionState } from "../engine/execution.ts";
import { AnyObject } from "../http/any-object.ts";
import { Reply } from "../http/envelope.ts";
import { Prefer } from "../http/prefer.ts";
import { defineRoute, events, type Route } from "../http/route.ts";
import { EventStream } from "../http/sse.ts";
import { wholeNumber } from "../http/whole-number.ts";
import { toSummary, type WorkflowDetail } from "./describe.ts";
import { begin, cancel, resume, suspend } from "./executions.ts";
import { findExecution, findWorkflow, listExecutions, type Workflows } from "./find.ts";
import { toEventView, toResult, toResultEvent, toStateView, type SuspendResult } from "./results.ts";
import { DetailShape, EventShape, ResultShape, StateShape, Status, SummaryShape, SuspendedShape } from "./shapes.ts";

export interface WorkflowRoutesOptions {
  readonly engine: Engine;
  /** True to show the message of every error, false to show only that of a `ServeError`. */
  readonly showErrors: boolean;
}

const ownId = v.optional(v.pipe(v.string(), v.maxLength(256, "expected at most 256 characters")));
const ExecuteBody = v.object({
  input: v.optional(v.unknown()), // validated by `begin()`, with the error messages of the spec
  options: v.optional(
    v.pipe(
      v.object({
        userId: ownId,
        conversationId: ownId,
        executionId: v.optional(
          v.pipe(
            v.string(),
            v.check((id: string) => isId(id), `expected ${idRule}`),
          ),
        ),
        context: v.optional(AnyObject),
      }),
      v.title("ExecutionOptions"),
    ),
  ),
});
const StartedShape = v.pipe(
  v.object({ executionId: v.string(), status: v.literal("running") }),
  v.title("StartedExecution"),
);
const ReasonBody = v.pipe(v.object({ reason: v.optional(v.string()) }), v.title("ReasonRequest"));
const ResumeBody = v.object({
  resumeData: v.optional(v.unknown()),
  options: v.optional(v.object({ stepId: v.optional(v.string()) })),
});

const ListQuery = v.object({
  status: v.optional(Status),
  limit: v.optional(wholeNumber(1, 200, "expected 1 to 200")),
  cursor: v.optional(v.string()),
});
const Seq = v.optional(wholeNumber(0, 999_999_999_999_999, "expected the seq of an event"));
const AttachQuery = v.object({ after: Seq });

const unknownWorkflow = { 404: "Workflow not found" };
const unknownExecution = { 404: "Workflow or execution not found" };
const cannotBegin = {
  503: "Too many executions are running, too much data is in flight, storage cannot be written, or the server is shutting down",
};
const cannotStart = { ...cannotBegin, 507: "Storage is full" };
const cannotRead = { 503: "Storage cannot be read" };
const cannotWrite = { 503: "Too much data is in flight, storage cannot be written, or the server is shutting down" };

export function workflowRoutes({ engine, showErrors }: WorkflowRoutesOptions): readonly Route<Workflows>[] {
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
    defineRoute({
      method: "POST",
      path: "/workflows/:id/execute",
      summary: "Run a workflow and wait until it ends or suspends",
      description:
        "The execution continues if the client disconnects. With `Prefer: respond-async` the response is a 202 with the id of the execution.",
      access: "protected",
      headers: { Prefer },
      body: ExecuteBody,
      responses: { 200: ResultShape, 202: StartedShape },
      errors: {
        ...unknownWorkflow,
        409: "The execution already exists, or was cancelled",
        ...cannotStart,
      },
      async handle({ params, headers, body, identity, request, snapshot, hold }) {
        const workflow = findWorkflow(snapshot, params.id);
        const isAsync = headers.Prefer;
        const { id } = await keep(hold(), begin(engine, workflow, body.input, body.options, identity, !isAsync));
        if (isAsync) return new Reply({ executionId: id, status: "running" }, { status: 202, headers: idHeader(id) });
        return settle(id, 0, request.signal);
      },
    }),
    defineRoute({
      method: "POST",
      path: "/workflows/:id/stream",
      summary: "Run a workflow and stream its events until it ends or suspends",
      description: "The last event has the result. The execution continues if the client disconnects.",
      access: "protected",
      body: ExecuteBody,
      responses: { 200: events(EventShape) },
      errors: { ...unknownWorkflow, 409: "The execution already exists", ...cannotStart },
      handle({ params, body, identity, snapshot, hold }) {
        const workflow = findWorkflow(snapshot, params.id);
        const executionId = body.options?.executionId ?? newId();
        async function* run(signal: AbortSignal): EventViews {
          const happening = engine.events(executionId, 0, signal); // before the start, so that no event is missed
          await keep(hold(), begin(engine, workflow, body.input, { ...body.options, executionId }, identity));
          yield* follow(happening, executionId, signal);
        }
        return new EventStream(run, idHeader(executionId));
      },
    }),
    defineRoute({
      method: "POST",
      path: "/workflows/:id/executions/:executionId/suspend",
      summary: "Suspend a running execution; steps in flight finish",
      description: "A resume continues the execution.",
      access: "public",
      body: ReasonBody,
      responses: { 200: SuspendedShape },
      errors: { ...unknownExecution, ...cannotWrite },
      async handle({ params, body, identity, snapshot }) {
        findWorkflow(snapshot, params.id);
        const found = await findExecution(engine, { params, identity, snapshot });
        const state = await suspend(engine, found, body.reason);
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
        "`resumeData` is checked against the resume schema of the step. `options.stepId` names the step to continue from.",
      access: "public",
      body: ResumeBody,
      responses: { 200: ResultShape },
      errors: {
        404: "Workflow not found, execution not found, or execution not suspended",
        409: "The execution was cancelled, or its workflow has changed",
        ...cannotBegin,
      },
      async handle({ params, body, identity, request, snapshot, hold }) {
        const workflow = findWorkflow(snapshot, params.id);
        const state = await findExecution(engine, { params, identity, snapshot });
        const asked = { resumeData: body.resumeData, stepId: body.options?.stepId };
        const resuming = resume(engine, workflow, state, asked, identity.caller);
        const resumed = await keep(
          hold(),
          resuming.then((next) => ({ ...next, id: params.executionId })),
        );
        return settle(params.executionId, resumed.epoch, request.signal);
      },
    }),
    defineRoute({
      method: "GET",
      path: "/workflows/:id/executions/:executionId/state",
      summary: "Get an execution",
      description:
        "The response has the status, the input and the context, and the result, the error or the suspension.",
      access: "public",
      responses: { 200: StateShape },
      errors: { ...unknownExecution, ...cannotRead },
      async handle(call) {
        const state = await findExecution(engine, call);
        const view = toStateView(state, showErrors);
        return new Reply(view, { headers: idHeader(view.executionId) });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/workflows/:id/executions",
      summary: "List the executions of a workflow, newest first",
      description:
        "`cursor` is the `nextCursor` of the page before. Large values are left out: see the state of an execution.",
      access: "protected",
      query: ListQuery,
      responses: { 200: v.object({ items: v.array(StateShape), nextCursor: v.nullable(v.string()) }) },
      errors: { ...unknownWorkflow, ...cannotRead },
      async handle({ params, query, identity, snapshot }) {
        const limit = query.limit ?? 50;
        const before = query.cursor === undefined ? undefined : fromCursor(query.cursor);
        const filter = { status: query.status, limit, before };
        const page = await listExecutions(engine, { params, identity, snapshot }, filter);
        const nextCursor = page.hasMore ? toCursor(page.states.at(-1)!) : null;
        return { items: page.states.map((state) => toStateView(state, showErrors)), nextCursor };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/workflows/:id/executions/:executionId/cancel",
      summary: "Cancel an execution; it cannot be resumed",
      description: "Steps in flight are aborted.",
      access: "protected",
      body: ReasonBody,
      responses: { 200: ResultShape },
      errors: { ...unknownExecution, ...cannotWrite },
      async handle(call) {
        const state = await findExecution(engine, call);
        return toReply(await cancel(engine, state, call.body.reason));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/workflows/:id/executions/:executionId/stream",
      summary: "Follow an execution: past events, then live events, until it ends or suspends",
      description: "`after`, or else `Last-Event-ID`, is the `seq` of the last event that the client has.",
      access: "protected",
      headers: { "Last-Event-ID": Seq },
      query: AttachQuery,
      responses: { 200: events(EventShape) },
      errors: { ...unknownExecution, 503: "Too many open streams, or storage cannot be read" },
      async handle(call) {
        const { execution } = await findExecution(engine, call);
        const after = call.query.after ?? call.headers["Last-Event-ID"] ?? 0;
        const { id } = execution;
        const attach = (signal: AbortSignal) => follow(engine.events(id, after, signal), id, signal);
        return new EventStream(attach, idHeader(id), { ids: true });
      },
    }),
  ];

  function withStatus(detail: WorkflowDetail): WorkflowDetail {
    return { ...detail, status: engine.running(detail.id) > 0 ? "running" : "idle" };
  }

  /** Counts a body as data in flight until the execution that it starts or continues has ended or is suspended. */
  async function keep<T extends { id: string; epoch?: number }>(
    release: (() => void) | undefined,
    starting: Promise<T>,
  ): Promise<T> {
    if (!release) return starting;
    starting.then(({ id, epoch = 0 }) => engine.settled(id, epoch)).then(release, release);
    return starting;
  }

  /** Waits for the end or the next suspension. A client that disconnects ends the wait, and the execution continues. */
  async function settle(id: string, afterEpoch: number, signal: AbortSignal): Promise<Reply> {
    const headers = idHeader(id);
    const state = await engine.settled(id, afterEpoch, signal).catch((error: unknown) => {
      if (signal.aborted) throw clientLeft();
      throw error instanceof ServeError
        ? new ServeError(error.status, error.message, { headers: [...error.headers, ...headers], cause: error })
        : error;
    });
    const { last } = state;
    if (last && "error" in last) throw new ServeError(500, "Failed to execute workflow", { headers });
    if (last && "cancellation" in last) throw new ServeError(409, `Execution ${id} was cancelled`, { headers });
    return toReply(state);
  }

  async function* follow(happening: ReturnType<Engine["events"]>, id: string, signal: AbortSignal): EventViews {
    for await (const event of happening) yield toEventView(event, showErrors);
    if (signal.aborted) return;
    const state = await engine.state(id);
    // A stream that ends without a result event tells the client to query the state.
    if (state && state.status !== "running") yield toResultEvent(state, showErrors, engine.clock.now());
  }
}

type EventViews = AsyncGenerator<Record<string, unknown>>;
const idHeader = (id: string): [string, string][] => [["x-execution-id", id]];
const toReply = (state: ExecutionState): Reply => new Reply(toResult(state), { headers: idHeader(state.execution.id) });

const toCursor = ({ execution }: ExecutionState): string =>
  Buffer.from(`${execution.startAt} ${execution.id}`).toString("base64url");

function fromCursor(cursor: string): { startAt: number; id: string } {
  const [, startAt, id] = /^(\d{1,15}) (.+)$/.exec(Buffer.from(cursor, "base64url").toString()) ?? [];
  if (!startAt || !isId(id)) throw badRequest("Invalid query: cursor: expected the nextCursor of a previous response");
  return { startAt: Number(startAt), id };
}
