import type { ListFilter } from "../../../engine/contract/engine.ts";
import type { Execution, ExecutionStatus, Transition } from "../../../engine/execution.ts";
import { kindsOf } from "../../../engine/suspension.ts";
import type { ServiceNames } from "../calls.ts";

/**
 * The text that lists are made from, with its parts for SQL (`sql`). The last one has the kinds of a suspension, each between
 * dots, or is `cancelled`.
 */
export function toIndex(
  { workflowId, startAt, id, userId }: Execution,
  status: ExecutionStatus,
  last?: Transition | undefined,
): string {
  const isCancelled = last !== undefined && "cancellation" in last;
  const detail = isCancelled ? cancelled : last?.to === "suspended" ? `.${kindsOf(last).join(".")}.` : "";
  const parts = [workflowId, toSortable(startAt), id, status, userId === undefined ? "" : `u${userId}`, detail];
  return toSqlText(parts.map((one) => encodeURIComponent(one)));
}

const cancelled = "cancelled";
const quotePart = (text: string): string => quote(encodeURIComponent(text));

/** The index is a state key of the register. An execution without one has it in its drive. */
export const isIndexed = ({ register, drive }: ServiceNames): string =>
  `service_name in ('${register}', '${drive}') and key = 'index'`;

/** SQL conditions of a filter. */
export function toConditions(filter: ListFilter): string[] {
  const { workflowId, status, kind, userId, idPrefix, isCancelled, since, until, before } = filter;
  const isOneOf = (index: number, values: readonly string[]): string =>
    values.length === 0 ? "1 = 0" : `${toPart(index)} in (${values.map(quotePart).join(", ")})`;
  return [
    ...(workflowId === undefined ? [] : [isOneOf(0, [workflowId])]),
    ...(status ? [isOneOf(3, status)] : []),
    ...(kind ? [isOneOf(3, ["suspended"]), hasKind(kind)] : []),
    ...(userId === undefined ? [] : [isOneOf(4, [userId === null ? "" : `u${userId}`])]),
    ...(idPrefix === undefined ? [] : [`starts_with(${toPart(2)}, ${quotePart(idPrefix)})`]),
    ...(isCancelled === undefined ? [] : [`${isCancelled ? "" : "not "}${isOneOf(5, [cancelled])}`]),
    ...(since === undefined ? [] : [`${toPart(1)} >= ${quote(toSortable(since))}`]),
    ...(until === undefined ? [] : [`${toPart(1)} <= ${quote(toSortable(until))}`]),
    ...(before ? [isBefore(before)] : []),
  ];
}

function hasKind(kinds: readonly string[]): string {
  return kinds.length === 0 ? "1 = 0" : `(${kinds.map((kind) => `${toPart(5)} like '%.${kind}.%'`).join(" or ")})`;
}

function isBefore({ startAt, id }: { startAt: number; id: string }): string {
  const start = quote(toSortable(startAt));
  return `(${toPart(1)} < ${start} or (${toPart(1)} = ${start} and ${toPart(2)} < ${quotePart(id)}))`;
}

/** A text that SQL can split. Its first part and its last are empty, because the stored JSON adds quotes. */
export const toSqlText = (parts: readonly (string | number)[]): string => `|${parts.join("|")}|`;
/** SQL for a part of such a text, by its index. */
export const toPart = (index: number): string => `split_part(value_utf8, '|', ${index + 2})`;
/** SQL for a text. */
export const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;
/** A number as a text of the same length as others, so that both have the same order. */
export const toSortable = (number: number, length = 15): string => String(number).padStart(length, "0");
/** The status in an index. */
export const statusPart: string = toPart(3);
