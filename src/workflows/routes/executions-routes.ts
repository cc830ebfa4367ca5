import * as v from "valibot";
import { type ExecutionState, executionStatuses } from "../../engine/execution.ts";
import { suspensionKinds } from "../../engine/suspension.ts";
import { commaList, Time, wholeNumber } from "../../http/input.ts";
import { defineRoute, events, type Route } from "../../http/route.ts";
import { comment, EventStream } from "../../http/sse.ts";
import type { ActionRequest } from "../../core/access/authorizer.ts";
import type { ListFilter } from "../../engine/contract/engine.ts";
import { mayResume } from "../access.ts";
import { followExecutions, listAllExecutions } from "../lists/all-executions.ts";
import { AuthorizedChanges } from "../lists/authorized-changes.ts";
import { listExecutions, type Workflows } from "../find.ts";
import { toCursor, toListFilter } from "../lists/readable-page.ts";
import { toItemView, toStateView, type ItemView } from "../results.ts";
import { ChangeShape, ItemShape, StateShape } from "./shapes.ts";
import { cannotRead, manyStreams, unknownWorkflow } from "./errors.ts";
import type { WorkflowRoutesOptions } from "./replies.ts";

const Owned = { workflowId: v.optional(v.string()), userId: v.optional(v.string()) };
const Filters = {
  userId: Owned.userId,
  status: v.optional(commaList(executionStatuses)),
  kind: v.optional(commaList(suspensionKinds)),
  id: v.optional(v.pipe(v.string(), v.regex(/^[\w.:-]{1,160}$/, "expected the beginning of an id"))),
  cancelled: v.optional(v.picklist(["true", "false"], "expected true or false")),
  since: v.optional(Time),
  until: v.optional(Time),
  limit: v.optional(wholeNumber(1, 200, "expected 1 to 200")),
  cursor: v.optional(v.string()),
};
const WorkflowListQuery = v.object(Filters);
const ListQuery = v.object({ ...Owned, ...Filters, include: v.optional(commaList(["values", "access"])) });
const foreignUser = { 403: "The caller may see only their own executions" };

/** The routes about lists of executions. */
export function executionsRoutes({ engine, showErrors }: WorkflowRoutesOptions): readonly Route<Workflows>[] {
  const authorized = new AuthorizedChanges(engine);
  return [
    defineRoute({
      method: "GET",
      path: "/executions",
      summary: "List the executions of all workflows, newest first",
      description:
        "Callers with a token see their own executions. `status` and `kind` take several values with commas between them, `id` is the beginning of an id, and `since` and `until` are about `startAt`. `input`, `context` and `result` are left out without `include=values`. With `include=access`, a suspended execution has `mayResume`: whether the caller may resume it. `cursor` is the `nextCursor` of the page before, with the same filters.",
      access: "protected",
      action: "execution.read",
      yields: true,
      query: ListQuery,
      responses: { 200: v.object({ items: v.array(ItemShape), nextCursor: v.nullable(v.string()) }) },
      errors: { ...foreignUser, ...cannotRead },
      async handle({ query, ...request }) {
        const { include, ...filters } = query;
        const page = await listAllExecutions(engine, request, toFilter(filters));
        const hasValues = include?.includes("values") ?? false;
        const items = page.states.map((state) => toItemView(state, showErrors, hasValues));
        if (include?.includes("access")) await addAccess(request, page.states, items);
        return { items, nextCursor: page.next ? toCursor(page.next) : null };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/workflows/:id/executions",
      summary: "List the executions of a workflow, newest first",
      description:
        "The filters are those of `GET /executions`. `cursor` is the `nextCursor` of the page before, with the same filters. Large values are left out: see the state of an execution.",
      access: "protected",
      action: "execution.read",
      query: WorkflowListQuery,
      responses: { 200: v.object({ items: v.array(StateShape), nextCursor: v.nullable(v.string()) }) },
      errors: { ...foreignUser, ...unknownWorkflow, ...cannotRead },
      async handle({ query, ...request }) {
        const page = await listExecutions(engine, request, toFilter(query));
        const nextCursor = page.next ? toCursor(page.next) : null;
        return { items: page.states.map((state) => toStateView(state, showErrors)), nextCursor };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/executions/stream",
      summary: "Follow the executions of all workflows: one event for each start and each change of status",
      description:
        "Callers with a token see their own executions. The stream has what happens while it is open. It ends if the client reads too slowly, and in `dev` when the config is loaded again: open it again, and list the executions again.",
      access: "protected",
      action: "execution.read",
      yields: true,
      query: v.object(Owned),
      responses: { 200: events(ChangeShape) },
      errors: { ...foreignUser, 429: manyStreams, 503: "Too many open streams" },
      handle({ query, ...request }) {
        // The next version of the config decides anew who the caller is and what they may read.
        const { retiring } = request.snapshot;
        const changes = (signal: AbortSignal) => followExecutions({ engine, authorized }, request, query, signal);
        async function* follow(signal: AbortSignal): AsyncGenerator<unknown> {
          const happening = changes(AbortSignal.any([signal, retiring]));
          yield comment; // the client lists once it knows that it misses nothing
          for await (const { executionId, workflowId, status, kind } of happening)
            yield { type: "execution", executionId, workflowId, status, ...(kind && { kind }) };
        }
        return new EventStream(follow, [], { isDetached: !request.snapshot.authorizer });
      },
    }),
  ];
}

function toFilter({ cancelled, ...filter }: v.InferOutput<typeof WorkflowListQuery>): ListFilter {
  return toListFilter({ ...filter, cancelled: cancelled === undefined ? undefined : cancelled === "true" });
}

/** Adds to each suspended execution whether the caller may resume it. */
async function addAccess(
  request: Omit<ActionRequest, "action">,
  states: readonly ExecutionState[],
  items: readonly ItemView[],
): Promise<void> {
  const asked = states.map((state) => (state.status === "suspended" ? mayResume(request, state) : undefined));
  for (const [index, allowed] of (await Promise.all(asked)).entries())
    if (allowed !== undefined) items[index]!.mayResume = allowed;
}
