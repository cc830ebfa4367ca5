import * as v from "valibot";
import type { Engine } from "../../engine/contract/engine.ts";
import { executionStatuses } from "../../engine/execution.ts";
import type { ExecutionFilter, ExecutionView } from "../../engine/runtime.ts";
import { suspensionKinds } from "../../engine/suspension.ts";
import { badRequest } from "../../core/error.ts";
import { validate } from "../../core/schema.ts";
import type { Visible } from "../access.ts";
import { toStateView } from "../results.ts";
import { toCursor, toListFilter } from "./readable-page.ts";

const limitRule = "expected 1 to 200";
const FilterShape: v.GenericSchema<ExecutionFilter> = v.object({
  workflowId: v.optional(v.string()),
  status: v.optional(v.union([v.picklist(executionStatuses), v.array(v.picklist(executionStatuses))])),
  kind: v.optional(v.union([v.picklist(suspensionKinds), v.array(v.picklist(suspensionKinds))])),
  userId: v.optional(v.string()),
  id: v.optional(v.pipe(v.string(), v.regex(/^[\w.:-]{1,160}$/, "expected the beginning of an id"))),
  cancelled: v.optional(v.boolean()),
  since: v.optional(v.date()),
  until: v.optional(v.date()),
  limit: v.optional(v.pipe(v.number(), v.integer(limitRule), v.minValue(1, limitRule), v.maxValue(200, limitRule))),
  cursor: v.optional(v.string()),
});

/** Lists executions for code. `toVisible` returns those that it may see, by the user of the filter. */
export async function listForCode(
  engine: Engine,
  filter: ExecutionFilter,
  toVisible: (userId: string | undefined) => Visible,
): Promise<{ items: ExecutionView[]; nextCursor: string | null }> {
  const checked = await validate(FilterShape, filter);
  if ("problem" in checked) throw badRequest(`Invalid filter: ${checked.problem}`);
  const { since, until, status, kind, userId, ...rest } = checked.value as ExecutionFilter; // it has no unknown keys
  const visible = toVisible(userId);
  if (!visible) return { items: [], nextCursor: null };
  const times = { since: since?.getTime(), until: until?.getTime() };
  const { states, hasMore } = await engine.list({
    ...toListFilter({ ...rest, ...times, status: toList(status), kind: toList(kind) }),
    ...visible,
  });
  const last = states.at(-1);
  return {
    items: states.map((state) => toStateView(state, true)),
    nextCursor: hasMore && last ? toCursor(last.execution) : null,
  };
}

const toList = <T>(value: T | readonly T[] | undefined): readonly T[] | undefined =>
  value === undefined ? undefined : Array.isArray(value) ? (value as readonly T[]) : [value as T];
