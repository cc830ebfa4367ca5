import type { ActionRequest } from "../core/authorizer.ts";
import type { ListFilter, ListPage } from "../engine/contract/engine.ts";
import type { ExecutionState } from "../engine/execution.ts";
import { mayRead, type Visible } from "./access.ts";

/** A page of executions that the caller may read. */
export interface ReadablePage {
  readonly states: readonly ExecutionState[];
  /** The place after which the next page begins. Undefined on the last page. */
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
  return { states, next: hasMore ? toPlace(states.at(-1)!) : undefined };
}

/** Max executions that `authorize` is asked about for one page. */
const maxAsked = 1_000;
/** The number of executions that are asked about at the same time. */
const atOnce = 200;
/** The time after which a page ends, because `authorize` is slow. */
const maxMs = 5_000;

async function listByAuthorize<F extends ListFilter>(
  request: ListRequest,
  filter: F,
  visible: Visible,
  read: (filter: F) => Promise<ListPage>,
): Promise<ReadablePage> {
  const { limit } = filter;
  const until = performance.now() + maxMs;
  const states: ExecutionState[] = [];
  let { before } = filter;
  let newest: ExecutionState | undefined;
  for (let asked = 0; ;) {
    const size = Math.min(asked === 0 ? limit : atOnce, maxAsked - asked);
    const page = await read({ ...filter, before, limit: size });
    const allowed = await Promise.all(page.states.map((state) => mayRead(request, state, visible)));
    for (const [index, state] of page.states.entries()) {
      if (states.length === limit) return { states, next: toPlace(states.at(-1)!) };
      if (allowed[index]) states.push(state);
    }
    if (!page.hasMore) return { states, next: undefined };
    asked += page.states.length;
    newest ??= page.states[0]!;
    const oldest = page.states.at(-1)!;
    before = toPlace(oldest);
    const isCut = page.states.length < size; // the values of this page are as large as those of a page may be
    const isOver = asked >= maxAsked || performance.now() >= until || (isCut && states.length > 0);
    if (allowed.at(-1) && (isOver || states.length === limit)) return { states, next: before };
    if (isOver) return cutPage(states, newest, oldest);
  }
}

/**
 * Ends a page at an execution that the caller may not read, and whose id must not be in the cursor. So the next page begins
 * with everything that started at the same time, unless the whole page did.
 */
function cutPage(states: readonly ExecutionState[], newest: ExecutionState, oldest: ExecutionState): ReadablePage {
  const { startAt } = oldest.execution;
  if (newest.execution.startAt === startAt) return { states, next: toPlace(oldest) };
  const earlier = states.filter(({ execution }) => execution.startAt !== startAt);
  return { states: earlier, next: { startAt: startAt + 1, id: lowestId } };
}

/** No id is lower than this one. */
const lowestId = "0";

const toPlace = ({ execution: { startAt, id } }: ExecutionState): ListCursor => ({ startAt, id });
