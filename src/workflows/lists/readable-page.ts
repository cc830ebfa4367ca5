import type { ActionRequest } from "../../core/access/authorizer.ts";
import { badRequest, busy } from "../../core/error.ts";
import { isExecutionId } from "../../core/id.ts";
import type { ListFilter, ListPage } from "../../engine/contract/engine.ts";
import type { ExecutionState } from "../../engine/execution.ts";
import { mayRead, type Visible } from "../access.ts";

/** A page of executions that the caller may read. */
export interface ReadablePage {
  readonly states: readonly ExecutionState[];
  /** The cursor of the next page. Undefined on the last page. */
  readonly next: ListCursor | undefined;
}
type ListCursor = NonNullable<ListFilter["before"]>;
type ListRequest = Omit<ActionRequest, "action">;

/**
 * Reads a page of executions that the caller may read. Without `authorize`, the rule is a filter of the store. `authorize` is
 * asked about each execution, and refused ones are skipped: a page may be shorter than its limit and have a next one.
 */
export async function listReadable<F extends ListFilter>(
  request: ListRequest,
  filter: F,
  visible: Visible,
  read: (filter: F) => Promise<ListPage>,
): Promise<ReadablePage> {
  if (request.snapshot.authorizer) return listByAuthorize(request, filter, visible, read);
  if (!visible) return { states: [], next: undefined };
  const { states, hasMore } = await read({ ...filter, ...visible });
  return { states, next: hasMore ? cursorOf(states.at(-1)!) : undefined };
}

/** Max executions that `authorize` is asked about for one page. */
const maxAsked = 1_000;
/** Max executions that `authorize` is asked about at the same time. */
const atOnce = 200;
/** Max time of a page whose `authorize` is slow. */
const maxMs = 5_000;
/** Factor of both bounds for a page whose executions all started in the same millisecond. */
const sameMsFactor = 10;

const isOverBounds = (asked: number, begun: number, factor: number): boolean =>
  asked >= factor * maxAsked || performance.now() - begun >= factor * maxMs;

/**
 * No cursor names an execution that the caller may not read. A page ends after its last readable execution, or before the
 * millisecond in which it stopped to ask. If all that it has asked about started in one millisecond, it continues, up to
 * `sameMsFactor` times its bounds.
 */
async function listByAuthorize<F extends ListFilter>(
  request: ListRequest,
  filter: F,
  visible: Visible,
  read: (filter: F) => Promise<ListPage>,
): Promise<ReadablePage> {
  const { limit } = filter;
  const begun = performance.now();
  const found: ExecutionState[] = [];
  let { before } = filter;
  let newest: ExecutionState | undefined;
  for (let asked = 0; ;) {
    const size = asked === 0 ? limit : Math.min(atOnce, asked < maxAsked ? maxAsked - asked : atOnce);
    const page = await read({ ...filter, before, limit: size });
    const allowed = await Promise.all(page.states.map((state) => mayRead(request, state, visible)));
    found.push(...page.states.filter((_, index) => allowed[index]));
    const states = found.slice(0, limit);
    const last = states.at(-1);
    const oldest = page.states.at(-1);
    if (!oldest || (!page.hasMore && (states.length < limit || last === oldest))) return { states, next: undefined };
    asked += page.states.length;
    newest ??= page.states[0];
    const isCut = page.states.length < size; // the values of this page reach its byte limit
    const isOver = isOverBounds(asked, begun, 1);
    if (last && (isOver || isCut || states.length === limit)) return { states, next: cursorOf(last) };
    const { startAt } = oldest.execution;
    if (isOver && newest?.execution.startAt !== startAt)
      return { states, next: { startAt: startAt + 1, id: lowestId } };
    if (isOverBounds(asked, begun, sameMsFactor)) throw busy("Too many executions started in the same millisecond", 1);
    before = cursorOf(oldest);
  }
}

/** No id is lower than this one. */
const lowestId = "0";

const cursorOf = ({ execution: { startAt, id } }: ExecutionState): ListCursor => ({ startAt, id });

export const toCursor = ({ startAt, id }: ListCursor): string => Buffer.from(`${startAt} ${id}`).toString("base64url");

function fromCursor(cursor: string): ListCursor {
  const [, startAt, id] = /^(\d{1,15}) (.+)$/.exec(Buffer.from(cursor, "base64url").toString()) ?? [];
  if (!startAt || !isExecutionId(id))
    throw badRequest("Invalid query: cursor: expected the nextCursor of a previous response");
  return { startAt: Number(startAt), id };
}

interface Filter extends Omit<ListFilter, "idPrefix" | "isCancelled" | "before" | "limit"> {
  readonly id?: string | undefined;
  readonly cancelled?: boolean | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}
/** Converts the filter of a request. */
export const toListFilter = ({ id, cancelled, cursor, limit = 50, ...rest }: Filter): ListFilter => ({
  ...rest,
  idPrefix: id,
  isCancelled: cancelled,
  limit,
  before: cursor === undefined ? undefined : fromCursor(cursor),
});
