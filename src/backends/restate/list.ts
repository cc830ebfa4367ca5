import type { ListFilter, ListPage } from "../../engine/backend.ts";
import {
  resolveTransition,
  type Execution,
  type ExecutionState,
  type ExecutionStatus,
} from "../../engine/execution.ts";
import { maxListedBytes, maxPageBytes, toTruncated, toTruncatedText } from "../../engine/listed-value.ts";
import type { JsonText } from "../../core/json.ts";
import type { RestateClient } from "./client.ts";
import type { ServiceNames } from "./calls.ts";

/** The text that lists are made from. SQL splits it at `|`; the first and the last part are empty, because JSON adds quotes. */
export function toIndex({ workflowId, startAt, id, userId }: Execution, status: ExecutionStatus): string {
  const parts = [workflowId, toSortable(startAt), id, status, userId === undefined ? "" : `u${userId}`];
  return `|${parts.map((part) => encodeURIComponent(part)).join("|")}|`;
}

const toSortable = (startAt: number): string => String(startAt).padStart(15, "0");
const part = (index: number): string => `split_part(value_utf8, '|', ${index + 2})`;
const quote = (text: string): string => `'${encodeURIComponent(text).replaceAll("'", "''")}'`;

/** A page of executions. The query is a scan over one small state key of every register. */
export async function listExecutions(
  client: RestateClient,
  names: ServiceNames,
  filter: ListFilter,
): Promise<ListPage> {
  const { workflowId, status, userId, limit, before } = filter;
  const where = [
    `service_name = '${names.register}'`,
    "key = 'index'",
    `${part(0)} = ${quote(workflowId)}`,
    ...(status ? [`${part(3)} = ${quote(status)}`] : []),
    ...(userId === undefined ? [] : [`${part(4)} = ${quote(`u${userId}`)}`]),
    ...(before ? [isBefore(before)] : []),
  ];
  const found = await client.query<{ id: string }>(
    `select service_key as id from state where ${where.join(" and ")}
      order by ${part(1)} desc, ${part(2)} desc limit ${limit + 1}`,
  );
  const asked = found.slice(0, limit).map(({ id }) => client.read<ExecutionState | null>(names.register, id, "state"));
  const states: ExecutionState[] = [];
  let bytes = 0;
  for (const state of await Promise.all(asked)) {
    if (!state) continue; // removed meanwhile
    const listed = toListed(state);
    if (states.length > 0 && bytes > maxPageBytes) return { states, hasMore: true };
    bytes += JSON.stringify(listed).length;
    states.push(listed);
  }
  return { states, hasMore: found.length > limit };
}

function isBefore({ startAt, id }: { startAt: number; id: string }): string {
  const start = quote(toSortable(startAt));
  return `(${part(1)} < ${start} or (${part(1)} = ${start} and ${part(2)} < ${quote(id)}))`;
}

/** The state with markers for long values. */
function toListed(state: ExecutionState): ExecutionState {
  const { execution, last } = state;
  const contextBytes = Buffer.byteLength(JSON.stringify(execution.context));
  const context = contextBytes > maxListedBytes ? { ...toTruncated(contextBytes) } : execution.context;
  const listed = { ...execution, input: toShort(execution.input)!, context };
  return { ...state, execution: listed, last: last && resolveTransition(last, toShort) };
}

function toShort(text: JsonText | undefined): JsonText | undefined {
  const bytes = text === undefined ? 0 : Buffer.byteLength(text);
  return bytes > maxListedBytes ? toTruncatedText(bytes) : text;
}
