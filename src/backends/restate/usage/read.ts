import { invalidCursor } from "../../../engine/stored/stored-conversation.ts";
import type { UsageCounts, UsageFilter, UsageGroup, UsageGrouping, UsagePage } from "../../../engine/contract/usage.ts";
import type { RestateClient } from "../client/client.ts";
import { quote } from "../list/sql.ts";
import { fromHex, partPrefix, toColumn, toDayText } from "./usage-text.ts";

interface Grouping {
  /** The text by which groups are in order, in SQL. */
  readonly place: string;
  readonly isDescending?: boolean;
  readonly fromPlace: (place: string) => Pick<UsageGroup, "day" | "userId" | "conversationId">;
}
const groupings: Readonly<Record<UsageGrouping, Grouping>> = {
  day: { place: toColumn("day"), isDescending: true, fromPlace: (place) => ({ day: Number(place) }) },
  user: { place: toColumn("user"), fromPlace: (place) => ({ userId: fromHex(place) }) },
  conversation: {
    place: `concat(${toColumn("conversation")}, ' ', ${toColumn("user")})`,
    fromPlace: (place) => {
      const [conversation = "", user = ""] = place.split(" ");
      return { conversationId: fromHex(conversation), userId: fromHex(user) };
    },
  },
};

const counted = [
  "calls",
  "inputTokens",
  "outputTokens",
  "totalTokens",
  "reasoningTokens",
  "cachedInputTokens",
] as const satisfies readonly (keyof UsageCounts)[];
const sums = counted.map((name) => `sum(cast(${toColumn(name)} as bigint)) as "${name}"`).join(", ");

/** Reads a page of usage. The query is a scan over the small state keys of the agent. Restate adds them up. */
export async function readUsage(
  client: RestateClient,
  { agentId, userId, by, since, until, limit, after }: UsageFilter,
): Promise<UsagePage> {
  if (after !== undefined && !/^[\da-fx ]*$/.test(after)) throw invalidCursor();
  const { place, isDescending = false, fromPlace } = groupings[by];
  const owner = JSON.stringify(userId === undefined ? [agentId] : [agentId, userId]);
  const where = [
    `service_name = ${quote(client.names.usage)} and starts_with(service_key, ${quote(`${owner.slice(0, -1)},`)})`,
    `starts_with(key, ${quote(partPrefix)})`,
    `${toColumn("day")} >= ${quote(toDayText(since))} and ${toColumn("day")} <= ${quote(toDayText(until))}`,
  ];
  const order = isDescending ? "desc" : "asc";
  const beyond = after === undefined ? [] : [`${place} ${isDescending ? "<" : ">"} ${quote(after)}`];
  const found = await client.query<{ place: string }>(
    `select ${place} as place from state where ${[...where, ...beyond].join(" and ")}
      group by ${place} order by 1 ${order} limit ${limit + 1}`,
  );
  const places = found.slice(0, limit).map((one) => one.place);
  const [first, last] = [places[0], places.at(-1)];
  if (first === undefined || last === undefined) return { groups: [], hasMore: false };
  const [least, most] = isDescending ? [last, first] : [first, last];
  const rows = await client.query<{ place: string; model: string } & UsageCounts>(
    `select ${place} as place, ${toColumn("model")} as model, ${sums} from state
      where ${[...where, `${place} >= ${quote(least)} and ${place} <= ${quote(most)}`].join(" and ")}
      group by ${place}, ${toColumn("model")} order by 1 ${order}, 2`,
  );
  const models = new Map<string, Map<string, UsageCounts>>(places.map((one) => [one, new Map()]));
  // A group that has come meanwhile is on no page.
  for (const { place: at, model, ...counts } of rows) models.get(at)?.set(fromHex(model) ?? "", counts);
  const groups = [...models].map(([at, of]) => ({ ...fromPlace(at), models: of, cursor: at }));
  return { groups, hasMore: found.length > limit };
}
