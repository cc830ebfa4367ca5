import type { ListFilter, ListPage } from "../../engine/contract/engine.ts";
import type { Execution, ExecutionState, ExecutionStatus, Transition } from "../../engine/execution.ts";
import { maxPageBytes } from "../../engine/listed-value.ts";
import { kindsOf } from "../../engine/suspension.ts";
import type { RestateClient } from "./client/client.ts";
import type { ServiceNames } from "./calls.ts";

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
const part = (index: number): string => `split_part(value_utf8, '|', ${index + 2})`;
/** The status in an index. */
export const statusPart: string = part(3);
const quote = (text: string): string => `'${encodeURIComponent(text).replaceAll("'", "''")}'`;

/** The index of an execution is a state key of its register, or of its drive while it has no register. */
const isIndexed = ({ register, drive }: ServiceNames): string =>
  `service_name in ('${register}', '${drive}') and key = 'index'`;

/** The number of executions in each status. A scan, like a list. */
export async function countByStatus(
  client: RestateClient,
  names: ServiceNames,
): Promise<Partial<Record<ExecutionStatus, number>>> {
  const rows = await client.query<{ status: ExecutionStatus; count: number }>(
    `select ${part(3)} as status, count(*) as count from state
      where ${isIndexed(names)} group by ${part(3)} order by 1`,
  );
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
}

type Listed = ExecutionState | null;
/** The number of registers that are read concurrently. */
const atOnce = 16;

/** A page of executions. The query is a scan over one small state key of every register. */
export async function listExecutions(
  client: RestateClient,
  names: ServiceNames,
  filter: ListFilter,
): Promise<ListPage> {
  const { limit } = filter;
  const where = [isIndexed(names), ...toConditions(filter)];
  const found = await client.query<{ id: string; service: string }>(
    `select service_key as id, service_name as service from state where ${where.join(" and ")}
      order by ${part(1)} desc, ${part(2)} desc limit ${limit + 1}`,
  );
  const page = found.slice(0, limit);
  const states = new Map<string, ExecutionState>();
  let bytes = 0;
  for (let from = 0; from < page.length; from += atOnce) {
    const asked = page
      .slice(from, from + atOnce)
      .map(({ id, service }) => client.read<Listed>(service, id, service === names.drive ? "listedSolo" : "listed"));
    for (const state of await Promise.all(asked)) {
      if (!state || states.has(state.execution.id)) continue; // removed meanwhile, or about to have only its register
      if (bytes >= maxPageBytes) return { states: [...states.values()], hasMore: true };
      bytes += JSON.stringify(state).length;
      states.set(state.execution.id, state);
    }
  }
  return { states: [...states.values()], hasMore: found.length > limit };
}

function toConditions(filter: ListFilter): string[] {
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
