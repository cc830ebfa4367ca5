import {
  invalidCursor,
  toOwnerText,
  type ConversationFilter,
  type ConversationPage,
} from "../../../engine/stored/stored-conversation.ts";
import type { ServiceNames } from "../calls.ts";
import type { RestateClient } from "../client/client.ts";
import { fromInfoText, toConversation } from "./info.ts";

const created = "split_part(value_utf8, '|', 2)";
const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** A page of conversations. The query is a scan over one small state key of every conversation. */
export async function listConversations(
  client: RestateClient,
  { conversation: service }: ServiceNames,
  { limit, after, ...owner }: ConversationFilter,
): Promise<ConversationPage> {
  // The keys of an owner begin with the text of the owner, without its last bracket.
  const first = `${toOwnerText(owner).slice(0, -1)},`;
  const where = [
    `service_name = ${quote(service)} and key = 'info' and starts_with(service_key, ${quote(first)})`,
    ...(after === undefined ? [] : [isAfter(after)]),
  ];
  const found = await client.query<{ id: string; info: string }>(
    `select service_key as id, value_utf8 as info from state where ${where.join(" and ")}
      order by ${created} desc, service_key desc limit ${limit + 1}`,
  );
  const page = found.slice(0, limit);
  const running = await findRunning(
    client,
    service,
    page.map(({ id }) => id),
  );
  return {
    conversations: page.map(({ id, info }) => toConversation(id, fromInfoText(JSON.parse(info)), running.has(id))),
    hasMore: found.length > limit,
  };
}

function isAfter(cursor: string): string {
  const [, time, key] = /^(\d{15}) (.+)$/s.exec(cursor) ?? [];
  if (time === undefined || key === undefined) throw invalidCursor();
  return `(${created} < ${quote(time)} or (${created} = ${quote(time)} and service_key < ${quote(key)}))`;
}

/** Returns the conversations that have a line of turns. */
async function findRunning(client: RestateClient, service: string, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await client.query<{ id: string }>(
    `select service_key as id from state
      where service_name = ${quote(service)} and key = 'line' and service_key in (${ids.map(quote).join(", ")})`,
  );
  return new Set(rows.map(({ id }) => id));
}
