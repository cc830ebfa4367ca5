import type { CallFilter, CallPage, FoundCall, PendingCall } from "../../../engine/stored/pending-calls.ts";
import {
  invalidCursor,
  toOwnerText,
  type ConversationFilter,
  type ConversationKey,
  type ConversationPage,
} from "../../../engine/stored/stored-conversation.ts";
import type { RestateClient } from "../client/client.ts";
import { statusPart } from "../list/list-index.ts";
import { quote, toPart, toSortable } from "../list/list-index.ts";
import { callKey, fromCallText, inputKey, toUserText } from "./calls.ts";
import { fromInfoText, toConversation } from "./info.ts";

/** The time of creation or request: the first part of each text. */
const time = toPart(0);
const prefix = callKey("");

/** A page of conversations. The query is a scan over one small state key of every conversation. */
export async function listConversations(
  client: RestateClient,
  { limit, after, ...owner }: ConversationFilter,
): Promise<ConversationPage> {
  const service = quote(client.names.conversation);
  // An owner's keys begin with its text, without the last bracket.
  const first = `${toOwnerText(owner).slice(0, -1)},`;
  const where = [
    `service_name = ${service} and key = 'info' and starts_with(service_key, ${quote(first)})`,
    ...(after === undefined ? [] : [isBeyond(after, { key: "service_key", isDescending: true })]),
  ];
  const found = await client.query<{ id: string; info: string }>(
    `select service_key as id, value_utf8 as info from state where ${where.join(" and ")}
      order by ${time} desc, service_key desc limit ${limit + 1}`,
  );
  const page = found.slice(0, limit);
  if (page.length === 0) return { conversations: [], hasMore: found.length > limit };
  const ids = page.map(({ id }) => quote(id)).join(", ");
  const lines = await client.query<{ id: string }>(
    `select service_key as id from state
      where service_name = ${service} and key = 'line' and service_key in (${ids})`,
  );
  const running = new Set(lines.map(({ id }) => id));
  return {
    conversations: page.map(({ id, info }) => toConversation(id, fromInfoText(JSON.parse(info)), running.has(id))),
    hasMore: found.length > limit,
  };
}

/** A page of calls that wait for an approval. The query is a scan over one small state key of every call. */
export async function listCalls(client: RestateClient, { owner, limit, after }: CallFilter): Promise<CallPage> {
  const isOwner = owner ? ` and ${toPart(1)} = ${quote(toUserText(owner.userId))}` : "";
  const { rows, hasMore } = await findCalls(client, `${toPart(2)} = 'approval'${isOwner}`, after, limit);
  const inputs = await readInputs(client, rows);
  const calls = rows.flatMap((row) => {
    const input = inputs.get(`${row.conversation} ${toId(row)}`);
    return input === undefined ? [] : [toCall(row, input)]; // decided meanwhile
  });
  return { calls, hasMore };
}

/** A page of calls that wait for an ended or removed execution. A scan, like a list of executions. */
export async function listEnded(client: RestateClient, after: string | undefined, limit: number): Promise<CallPage> {
  const isOpen = `${statusPart} in ('running', 'suspended')`;
  const open = `select service_key from state
    where service_name = ${quote(client.names.register)} and key = 'index' and ${isOpen}`;
  const isEnded = `substr(key, ${prefix.length + 1}) not in (${open})`;
  const { rows, hasMore } = await findCalls(client, `${toPart(2)} = 'execution' and ${isEnded}`, after, limit);
  return { calls: rows.map((row) => toCall(row, "")), hasMore };
}

/** Returns the conversation of a call. Undefined: there is no such call. */
export async function findConversation(client: RestateClient, id: string): Promise<ConversationKey | undefined> {
  if (!/^[\w:-]{1,200}$/.test(id)) return undefined; // not an id of ours
  const [row] = await client.query<Pick<CallRow, "conversation">>(
    `select service_key as conversation from state
      where service_name = ${quote(client.names.conversation)} and key = ${quote(callKey(id))} limit 1`,
  );
  return row && toKey(row.conversation);
}

interface CallRow {
  readonly conversation: string;
  /** The key of the state. */
  readonly key: string;
  /** JSON. */
  readonly text: string;
}
const columns = "service_key as conversation, key, value_utf8 as text";
const toId = ({ key }: CallRow): string => key.slice(prefix.length);

/** Reads the calls of a page, in the order of their requests. */
async function findCalls(
  client: RestateClient,
  condition: string,
  after: string | undefined,
  limit: number,
): Promise<{ rows: CallRow[]; hasMore: boolean }> {
  const where = [
    `service_name = ${quote(client.names.conversation)} and starts_with(key, ${quote(prefix)})`,
    condition,
    ...(after === undefined ? [] : [isBeyond(after, { key: "key", prefix })]),
  ];
  const found = await client.query<CallRow>(
    `select ${columns} from state where ${where.join(" and ")} order by ${time}, key limit ${limit + 1}`,
  );
  return { rows: found.slice(0, limit), hasMore: found.length > limit };
}

function toCall(row: CallRow, input: PendingCall["input"]): FoundCall {
  const call = fromCallText(toId(row), JSON.parse(row.text) as string, input);
  return { ...call, key: toKey(row.conversation), cursor: `${toSortable(call.at)} ${call.id}` };
}

/** Reads the inputs of calls, by conversation and id. */
async function readInputs(client: RestateClient, rows: readonly CallRow[]): Promise<Map<string, string>> {
  if (rows.length === 0) return new Map();
  const keys = rows.map((row) => quote(inputKey(toId(row))));
  const found = await client.query<CallRow>(
    `select ${columns} from state
      where service_name = ${quote(client.names.conversation)} and key in (${keys.join(", ")})`,
  );
  const first = inputKey("").length;
  return new Map(
    found.map(({ conversation, key, text }) => [`${conversation} ${key.slice(first)}`, JSON.parse(text) as string]),
  );
}

interface Order {
  readonly key: string;
  /** The beginning of each key. An id follows. @default "" before any text */
  readonly prefix?: string;
  readonly isDescending?: boolean;
}

/** SQL for the rows after a cursor: a time and the rest of a key. */
function isBeyond(cursor: string, { key, prefix: first, isDescending = false }: Order): string {
  const pattern = first === undefined ? /^(\d{15}) (.+)$/s : /^(\d{15}) ([\w:-]+)$/;
  const [, at, rest] = pattern.exec(cursor) ?? [];
  if (at === undefined || rest === undefined) throw invalidCursor();
  const sign = isDescending ? "<" : ">";
  return `(${time} ${sign} ${quote(at)} or (${time} = ${quote(at)} and ${key} ${sign} ${quote((first ?? "") + rest)}))`;
}

/** Returns the conversation of an object by its key. */
export function toKey(text: string): ConversationKey {
  const [agentId, userId, conversationId] = JSON.parse(text) as [string, string | null, string];
  return { agentId, userId: userId ?? undefined, conversationId };
}
