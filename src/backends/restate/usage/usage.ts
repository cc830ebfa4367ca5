import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "../../../core/id.ts";
import type { Logger } from "../../../core/log.ts";
import { UsageQueue } from "../../../engine/stored/usage-queue.ts";
import type {
  UsageCounts,
  UsageFilter,
  UsageGroup,
  UsageGrouping,
  UsagePage,
  UsageRow,
  UsageStore,
} from "../../../engine/contract/usage.ts";
import { invalidCursor } from "../../../engine/stored/stored-conversation.ts";
import { persist, type RestateClient } from "../client/client.ts";
import { quote } from "../list/list-index.ts";
import { countNames, fromHex, partPrefix, toColumn, toDayText, toUsageKey, toUsagePart } from "./service.ts";

/** The objects that are called at the same time. */
const atOnce = 16;
/** The longest pause before counts are sent again. */
const maxPauseMs = 5_000;

/** Usage in Restate. Each conversation has an object with its sums. */
export class RestateUsage implements UsageStore {
  readonly #client: RestateClient;
  readonly #queue: UsageQueue;

  constructor(client: RestateClient, logger: Logger) {
    this.#client = client;
    const onLost = (calls: number, error?: unknown): void =>
      logger.error("The usage of model calls could not be stored", { calls, error });
    this.#queue = new UsageQueue({ write: (rows) => this.#write(rows), onLost });
  }

  count(row: UsageRow): void {
    this.#queue.add(row);
  }

  /** Sends what waits. Resolves when Restate has it, or after a time. */
  async close(limitMs: number): Promise<void> {
    await Promise.race([this.#queue.flush(), sleep(limitMs, undefined, { ref: false })]);
  }

  read(filter: UsageFilter): Promise<UsagePage> {
    return readUsage(this.#client, filter);
  }

  async #write(rows: readonly UsageRow[]): Promise<boolean> {
    const objects = [...Map.groupBy(rows, toUsageKey)];
    for (let from = 0; from < objects.length; from += atOnce)
      await Promise.all(objects.slice(from, from + atOnce).map(([key, parts]) => this.#send(key, parts)));
    return true;
  }

  /** Sends the counts of an object until Restate has them. It counts a message that is sent twice once, by its id. */
  async #send(key: string, rows: readonly UsageRow[]): Promise<void> {
    const parts = rows.map(toUsagePart);
    const id = newId();
    await persist(() => this.#client.sendOnce("usage/add", key, parts, { id }), { maxMs: maxPauseMs });
  }
}

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

const sums = countNames.map((name) => `sum(cast(${toColumn(name)} as bigint)) as "${name}"`).join(", ");

/** Reads a page of usage. The query is a scan over the small state keys of the agent. Restate adds them up. */
async function readUsage(
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
  // A new group is on no page.
  for (const { place: at, model, ...counts } of rows) models.get(at)?.set(fromHex(model) ?? "", counts);
  const groups = [...models].map(([at, of]) => ({ ...fromPlace(at), models: of, cursor: at }));
  return { groups, hasMore: found.length > limit };
}
