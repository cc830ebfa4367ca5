import type { ListFilter } from "../../../engine/contract/engine.ts";
import type { Execution, ExecutionStatus, Transition } from "../../../engine/execution.ts";
import { kindsOf } from "../../../engine/suspension.ts";
import type { ServiceNames } from "../calls.ts";

/**
 * The text that lists are made from. SQL splits it at `|`; the first and the last part are empty, because JSON adds quotes. The
 * part before the last one has the kinds of a suspension, each between dots, or is `cancelled`.
 */
export function toIndex(
  { workflowId, startAt, id, userId }: Execution,
  status: ExecutionStatus,
  last?: Transition | undefined,
): string {
  const isCancelled = last !== undefined && "cancellation" in last;
  const detail = isCancelled ? cancelled : last?.to === "suspended" ? `.${kindsOf(last).join(".")}.` : "";
  const parts = [workflowId, toSortable(startAt), id, status, userId === undefined ? "" : `u${userId}`, detail];
  return `|${parts.map((part) => encodeURIComponent(part)).join("|")}|`;
}

const cancelled = "cancelled";
const toSortable = (startAt: number): string => String(startAt).padStart(15, "0");
/** SQL for a part of an index. */
export const part = (index: number): string => `split_part(value_utf8, '|', ${index + 2})`;
/** The status in an index. */
export const statusPart: string = part(3);
const quote = (text: string): string => `'${encodeURIComponent(text).replaceAll("'", "''")}'`;

/** The index of an execution is a state key of its register, or of its drive while it has no register. */
export const isIndexed = ({ register, drive }: ServiceNames): string =>
  `service_name in ('${register}', '${drive}') and key = 'index'`;

/** SQL conditions of a filter. */
export function toConditions(filter: ListFilter): string[] {
  const { workflowId, status, kind, userId, idPrefix, isCancelled, since, until, before } = filter;
  const isOneOf = (index: number, values: readonly string[]): string =>
    values.length === 0 ? "1 = 0" : `${part(index)} in (${values.map(quote).join(", ")})`;
  return [
    ...(workflowId === undefined ? [] : [isOneOf(0, [workflowId])]),
    ...(status ? [isOneOf(3, status)] : []),
    ...(kind ? [isOneOf(3, ["suspended"]), hasKind(kind)] : []),
    ...(userId === undefined ? [] : [isOneOf(4, [userId === null ? "" : `u${userId}`])]),
    ...(idPrefix === undefined ? [] : [`starts_with(${part(2)}, ${quote(idPrefix)})`]),
    ...(isCancelled === undefined ? [] : [`${isCancelled ? "" : "not "}${isOneOf(5, [cancelled])}`]),
    ...(since === undefined ? [] : [`${part(1)} >= ${quote(toSortable(since))}`]),
    ...(until === undefined ? [] : [`${part(1)} <= ${quote(toSortable(until))}`]),
    ...(before ? [isBefore(before)] : []),
  ];
}

function hasKind(kinds: readonly string[]): string {
  return kinds.length === 0 ? "1 = 0" : `(${kinds.map((kind) => `${part(5)} like '%.${kind}.%'`).join(" or ")})`;
}

function isBefore({ startAt, id }: { startAt: number; id: string }): string {
  const start = quote(toSortable(startAt));
  return `(${part(1)} < ${start} or (${part(1)} = ${start} and ${part(2)} < ${quote(id)}))`;
}
