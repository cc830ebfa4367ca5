import type { ListFilter, ListPage } from "../../../engine/contract/engine.ts";
import type { ExecutionState, ExecutionStatus } from "../../../engine/execution.ts";
import { maxPageBytes } from "../../../engine/stored/listed-value.ts";
import type { RestateClient } from "../client/client.ts";
import { isIndexed, statusPart, toConditions } from "./list-index.ts";
import { toPart } from "./list-index.ts";
import type { States } from "../reads/states.ts";

/** The number of executions in each status. A scan, like a list. */
export async function countByStatus(client: RestateClient): Promise<Partial<Record<ExecutionStatus, number>>> {
  const rows = await client.query<{ status: ExecutionStatus; count: number }>(
    `select ${statusPart} as status, count(*) as count from state
      where ${isIndexed(client.names)} group by ${statusPart} order by 1`,
  );
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
}

interface ListParts {
  readonly client: RestateClient;
  readonly states: States;
}
/** The number of registers that are read concurrently. */
const atOnce = 16;

/** A page of executions. The query is a scan over one small state key of every register. */
export async function listExecutions({ client, states: stored }: ListParts, filter: ListFilter): Promise<ListPage> {
  const { limit } = filter;
  const where = [isIndexed(client.names), ...toConditions(filter)];
  const found = await client.query<{ id: string; service: string }>(
    `select service_key as id, service_name as service from state where ${where.join(" and ")}
      order by ${toPart(1)} desc, ${toPart(2)} desc limit ${limit + 1}`,
  );
  const page = found.slice(0, limit);
  const states = new Map<string, ExecutionState>();
  let bytes = 0;
  for (let from = 0; from < page.length; from += atOnce) {
    const asked = page.slice(from, from + atOnce).map(({ id, service }) => stored.readListed(id, service));
    for (const state of await Promise.all(asked)) {
      if (!state || states.has(state.execution.id)) continue; // removed meanwhile, or found twice
      if (bytes >= maxPageBytes) return { states: [...states.values()], hasMore: true };
      bytes += JSON.stringify(state).length;
      states.set(state.execution.id, state);
    }
  }
  return { states: [...states.values()], hasMore: found.length > limit };
}
