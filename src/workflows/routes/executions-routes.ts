import * as v from "valibot";
import { executionStatuses } from "../../engine/execution.ts";
import { suspensionKinds } from "../../engine/suspension.ts";
import { commaList } from "../../http/comma-list.ts";
import { defineRoute, events, type Route } from "../../http/route.ts";
import { comment, EventStream } from "../../http/sse.ts";
import { Time } from "../../http/time.ts";
import { wholeNumber } from "../../http/whole-number.ts";
import type { ActionRequest } from "../../core/authorizer.ts";
import type { ExecutionState } from "../../engine/execution.ts";
import { mayResume } from "../access.ts";
import { followExecutions, listAllExecutions } from "../all-executions.ts";
import type { Workflows } from "../find.ts";
import { toItemView, type ItemView } from "../results.ts";
import { ChangeShape, ItemShape } from "../shapes.ts";
import { fromCursor, toCursor } from "./cursor.ts";
import { cannotRead } from "./errors.ts";
import type { WorkflowRoutesOptions } from "./options.ts";

const Owned = { workflowId: v.optional(v.string()), userId: v.optional(v.string()) };
const ListQuery = v.object({
  ...Owned,
  status: v.optional(commaList(executionStatuses)),
  kind: v.optional(commaList(suspensionKinds)),
  id: v.optional(v.pipe(v.string(), v.regex(/^[\w.:-]{1,160}$/, "expected the beginning of an id"))),
  cancelled: v.optional(v.picklist(["true", "false"], "expected true or false")),
  since: v.optional(Time),
  until: v.optional(Time),
  include: v.optional(commaList(["values", "access"])),
  limit: v.optional(wholeNumber(1, 200, "expected 1 to 200")),
  cursor: v.optional(v.string()),
});
const foreignUser = { 403: "The caller may see only their own executions" };

/** The routes about the executions of all workflows. */
export function executionsRoutes({ engine, showErrors }: WorkflowRoutesOptions): readonly Route<Workflows>[] {
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
        const { id: idPrefix, cancelled, include, cursor, limit = 50, ...filter } = query;
        const page = await listAllExecutions(engine, request, {
          ...filter,
          idPrefix,
          isCancelled: cancelled === undefined ? undefined : cancelled === "true",
          limit,
          before: cursor === undefined ? undefined : fromCursor(cursor),
        });
        const hasValues = include?.includes("values") ?? false;
        const items = page.states.map((state) => toItemView(state, showErrors, hasValues));
        if (include?.includes("access")) await addAccess(request, page.states, items);
        return { items, nextCursor: page.next ? toCursor(page.next) : null };
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
      errors: { ...foreignUser, 503: "Too many open streams" },
      handle({ query, ...request }) {
        // The next version of the config decides anew who the caller is and what they may read.
        const { retiring } = request.snapshot;
        const changes = (signal: AbortSignal) => followExecutions(engine, request, query, signal);
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
