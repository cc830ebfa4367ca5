import type { ActionRequest } from "../../core/access/authorizer.ts";
import { ServeError } from "../../core/error.ts";
import type { Engine, ExecutionChange, ListFilter } from "../../engine/contract/engine.ts";
import type { Visible } from "../access.ts";
import type { AuthorizedChanges } from "./authorized-changes.ts";
import { listReadable, type ReadablePage } from "./readable-page.ts";

type ListRequest = Omit<ActionRequest, "action">;

/** Returns a page of executions that the caller may list, from all workflows. */
export async function listAllExecutions(
  engine: Engine,
  request: ListRequest,
  filter: ListFilter,
): Promise<ReadablePage> {
  return listReadable(request, filter, toVisible(request, filter.userId), (asked) => engine.list(asked));
}

/** Yields the starts and transitions of the executions that the caller may list, from the call on. */
export function followExecutions(
  { engine, authorized }: { engine: Engine; authorized: AuthorizedChanges },
  request: ListRequest,
  filter: Pick<ListFilter, "workflowId" | "userId">,
  signal: AbortSignal,
): AsyncGenerator<ExecutionChange> {
  const visible = toVisible(request, filter.userId);
  const { authorizer } = request.snapshot;
  if (authorizer) return authorized.follow(request, authorizer, { filter, visible, signal });
  return visible ? engine.changes({ ...filter, ...visible }, signal) : nothing(signal);
}

/** Yields nothing, and ends with the signal: a stream that ended would be opened again at once. */
async function* nothing(signal: AbortSignal): AsyncGenerator<never> {
  if (signal.aborted) return;
  yield* await new Promise<never[]>((resolve) => signal.addEventListener("abort", () => resolve([]), { once: true }));
}

/**
 * Returns the rule where no `authorize` decides. With a provider, a caller sees their own executions. A caller who asks
 * for another user sees theirs if there is no `ownership`. Throws a 403 if there is, and no `authorize`.
 */
function toVisible({ identity, snapshot }: ListRequest, userId: ListFilter["userId"]): Visible {
  const { checked, ownership, caller } = identity;
  if (!checked || (userId !== undefined && userId === caller?.userId)) return { userId };
  if (userId === undefined) return caller?.userId === undefined ? undefined : { userId: caller.userId };
  if (!ownership && caller) return { userId };
  if (snapshot.authorizer) return undefined;
  throw new ServeError(403, "Forbidden");
}
