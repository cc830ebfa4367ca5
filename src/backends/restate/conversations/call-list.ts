import type { CallFilter, CallPage, FoundCall } from "../../../engine/stored/pending-calls.ts";
import { invalidCursor, type ConversationKey } from "../../../engine/stored/stored-conversation.ts";
import type { ServiceNames } from "../calls.ts";
import type { RestateClient } from "../client/client.ts";
import { statusPart } from "../list/list-index.ts";
import { callKey, fromCallText, inputKey, toSortable, toUserText } from "./calls.ts";

const requestedAt = "split_part(value_utf8, '|', 2)";
const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;
const prefix = callKey("");

/** A page of calls that wait for an approval. The query is a scan over one small state key of every call. */
export async function listCalls(
  client: RestateClient,
  { conversation: service }: ServiceNames,
  { owner, limit, after }: CallFilter,
): Promise<CallPage> {
  const where = [
    `service_name = ${quote(service)} and starts_with(key, ${quote(prefix)})`,
    "split_part(value_utf8, '|', 4) = 'approval'",
    ...(owner ? [`split_part(value_utf8, '|', 3) = ${quote(toUserText(owner.userId))}`] : []),
    ...(after === undefined ? [] : [isAfter(after)]),
  ];
  const rows = await client.query<CallRow>(
    `select service_key as conversation, key as id, value_utf8 as text from state where ${where.join(" and ")}
      order by ${requestedAt}, key limit ${limit + 1}`,
  );
  const inputs = await readInputs(client, service, rows.slice(0, limit));
  const calls = rows.slice(0, limit).flatMap(({ conversation, id: key, text }) => {
    const id = key.slice(prefix.length);
    const input = inputs.get(`${conversation} ${id}`);
    if (input === undefined) return []; // decided meanwhile
    const call = fromCallText(id, JSON.parse(text) as string, input);
    return [{ ...call, key: toKey(conversation), cursor: `${toSortable(call.at)} ${id}` }];
  });
  return { calls, hasMore: rows.length > limit };
}

/** A page of calls that wait for an execution that has ended, or was removed. A scan, like a list of executions. */
export async function listEnded(
  client: RestateClient,
  { conversation, register }: ServiceNames,
  after: string | undefined,
  limit: number,
): Promise<CallPage> {
  const isCall = `service_name = ${quote(conversation)} and starts_with(key, ${quote(prefix)})`;
  const waits = "split_part(value_utf8, '|', 4) = 'execution'";
  const isOpen = `${statusPart} in ('running', 'suspended')`;
  const rows = await client.query<CallRow>(
    `select service_key as conversation, key as id, value_utf8 as text from state
      where ${isCall} and ${waits}${after === undefined ? "" : ` and ${isAfter(after)}`}
        and substr(key, ${prefix.length + 1}) not in
          (select service_key from state where service_name = ${quote(register)} and key = 'index' and ${isOpen})
      order by ${requestedAt}, key limit ${limit + 1}`,
  );
  const calls = rows.slice(0, limit).map(({ conversation: of, id: key, text }) => {
    const call = fromCallText(key.slice(prefix.length), JSON.parse(text) as string, "");
    return { ...call, key: toKey(of), cursor: `${toSortable(call.at)} ${call.id}` };
  });
  return { calls, hasMore: rows.length > limit };
}

/** Returns the conversation of a call. Undefined: there is no such call. */
export async function findConversation(
  client: RestateClient,
  { conversation: service }: ServiceNames,
  id: string,
): Promise<ConversationKey | undefined> {
  if (!/^[\w:-]{1,200}$/.test(id)) return undefined; // no id of ours
  const [row] = await client.query<Pick<CallRow, "conversation">>(
    `select service_key as conversation from state
      where service_name = ${quote(service)} and key = ${quote(callKey(id))} limit 1`,
  );
  return row && toKey(row.conversation);
}

interface CallRow {
  readonly conversation: string;
  /** The key of the state. */
  readonly id: string;
  /** JSON. */
  readonly text: string;
}

async function readInputs(
  client: RestateClient,
  service: string,
  rows: readonly CallRow[],
): Promise<Map<string, FoundCall["input"]>> {
  if (rows.length === 0) return new Map();
  const keys = rows.map(({ id }) => quote(inputKey(id.slice(prefix.length))));
  const found = await client.query<CallRow>(
    `select service_key as conversation, key as id, value_utf8 as text from state
      where service_name = ${quote(service)} and key in (${keys.join(", ")})`,
  );
  const toEntry = ({ conversation, id, text }: CallRow): [string, string] => [
    `${conversation} ${id.slice(inputKey("").length)}`,
    JSON.parse(text) as string,
  ];
  return new Map(found.map(toEntry));
}

function isAfter(cursor: string): string {
  const [, time, id] = /^(\d{15}) ([\w:-]+)$/.exec(cursor) ?? [];
  if (time === undefined || id === undefined) throw invalidCursor();
  return `(${requestedAt} > ${quote(time)} or (${requestedAt} = ${quote(time)} and key > ${quote(callKey(id))}))`;
}

/** Returns the conversation of an object by its key. */
export function toKey(text: string): ConversationKey {
  const [agentId, userId, conversationId] = JSON.parse(text) as [string, string | null, string];
  return { agentId, userId: userId ?? undefined, conversationId };
}
