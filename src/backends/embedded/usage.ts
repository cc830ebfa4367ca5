import { setImmediate as nextTurn } from "node:timers/promises";
import type { Logger } from "../../core/log.ts";
import { invalidCursor } from "../../engine/stored/stored-conversation.ts";
import { UsageQueue } from "../../engine/stored/usage-queue.ts";
import {
  addCounts,
  noUsage,
  type UsageCounts,
  type UsageFilter,
  type UsageGroup,
  type UsageGrouping,
  type UsagePage,
  type UsageRow,
  type UsageStore,
} from "../../engine/contract/usage.ts";
import { fromColumn, toColumn, toCounts, type StoredUsage, type UsageTable } from "./store/tables/usage-table.ts";
import type { Writer } from "./store/writer.ts";

interface Parts {
  readonly usage: UsageTable;
  readonly writer: Writer;
}

/** Max rows and max days that are read in one event-loop turn. */
const rowsAtOnce = 1_000;
const daysAtOnce = 50;

/** Usage in the file of the executions. */
export class EmbeddedUsage implements UsageStore {
  readonly #file: () => Parts;
  readonly #queue: UsageQueue;

  constructor(file: () => Parts, logger: Logger) {
    this.#file = file;
    const onLost = (calls: number, error?: unknown): void =>
      logger.error("The usage of model calls could not be stored", { calls, error });
    const write = (rows: readonly UsageRow[]): Promise<boolean> => {
      const { usage, writer } = file();
      return writer.runOrPass(() => rows.forEach((row) => usage.add(row)));
    };
    this.#queue = new UsageQueue({ write, onLost });
  }

  count(row: UsageRow): void {
    this.#queue.add(row);
  }

  /** Hands what waits to the writer. */
  flush(): Promise<void> {
    return this.#queue.flush();
  }

  /** Every row of the days is read, but only the groups of the page are kept. */
  async read({ agentId, userId, by, since, until, limit, after }: UsageFilter): Promise<UsagePage> {
    await this.#queue.flush();
    const { usage } = this.#file();
    const { toPlace, compare, fromPlace } = groupings[by];
    const user = userId === undefined ? undefined : toColumn(userId);
    const groups = new FirstGroups(limit + 1, compare);
    const isAfter = after === undefined ? () => true : toFilter(after, by);
    const days = usage.days();
    const first = Math.max(since, days?.first ?? Infinity);
    let work = 0;
    for (let day = Math.min(until, days?.last ?? -Infinity); day >= first; day--) {
      if (by === "day" && (!isAfter(String(day)) || groups.isFull)) continue;
      for (let last: StoredUsage | undefined; ;) {
        const rows = usage.rows({ day, agentId, user }, last, rowsAtOnce);
        for (const row of rows) {
          const place = toPlace(row, day);
          if (isAfter(place)) groups.add(place, row);
        }
        work += rows.length / rowsAtOnce + 1 / daysAtOnce;
        if (work >= 1) await nextTurn();
        if (work >= 1) work = 0;
        if (rows.length < rowsAtOnce) break;
        last = rows.at(-1);
      }
    }
    const found = groups.all();
    const toGroup = ([place, models]: (typeof found)[number]): UsageGroup => ({
      ...fromPlace(place),
      models,
      cursor: place,
    });
    return { groups: found.slice(0, limit).map(toGroup), hasMore: found.length > limit };
  }
}

type Compare = (one: string, other: string) => number;
interface Grouping {
  /** The text by which groups are in order. */
  readonly toPlace: (row: StoredUsage, day: number) => string;
  readonly fromPlace: (place: string) => Pick<UsageGroup, "day" | "userId" | "conversationId">;
  readonly compare: Compare;
  readonly isPlace: (text: string) => boolean;
}
const byText: Compare = (one, other) => (one < other ? -1 : Number(one > other));
const groupings: Readonly<Record<UsageGrouping, Grouping>> = {
  day: {
    toPlace: (_, day) => String(day),
    fromPlace: (place) => ({ day: Number(place) }),
    compare: (one, other) => Number(other) - Number(one),
    isPlace: (text) => /^\d{1,7}$/.test(text),
  },
  user: {
    toPlace: ({ user }) => user,
    fromPlace: (place) => ({ userId: fromColumn(place) }),
    compare: byText,
    isPlace: (text) => text === "" || text.startsWith("="),
  },
  conversation: {
    toPlace: ({ user, conversation }) => JSON.stringify([conversation, user]),
    fromPlace: (place) => {
      const [conversation, user] = JSON.parse(place) as [string, string]; // as `toPlace` makes it
      return { conversationId: fromColumn(conversation), userId: fromColumn(user) };
    },
    compare: byText,
    isPlace: (text) => /^\["(=.*)?","(=.*)?"\]$/s.test(text),
  },
};

function toFilter(after: string, by: UsageGrouping): (place: string) => boolean {
  const { isPlace, compare } = groupings[by];
  if (!isPlace(after)) throw invalidCursor();
  return (place) => compare(place, after) > 0;
}

/** The first groups of many, by their places. Others are dropped as soon as it is known that they come later. */
class FirstGroups {
  readonly #max: number;
  readonly #compare: Compare;
  #groups = new Map<string, Map<string, UsageCounts>>();
  /** Groups after this place are not among the first. */
  #last: string | undefined;

  constructor(max: number, compare: Compare) {
    this.#max = max;
    this.#compare = compare;
  }

  get isFull(): boolean {
    return this.#groups.size >= this.#max;
  }

  add(place: string, row: StoredUsage): void {
    if (this.#last !== undefined && this.#compare(place, this.#last) > 0) return;
    const models = this.#groups.get(place) ?? new Map<string, UsageCounts>();
    models.set(row.model, addCounts(models.get(row.model) ?? noUsage, toCounts(row)));
    this.#groups.set(place, models);
    if (this.#groups.size < 2 * this.#max) return;
    this.#groups = new Map(this.all());
    this.#last = [...this.#groups.keys()].at(-1);
  }

  /** The first groups, in order. */
  all(): [string, Map<string, UsageCounts>][] {
    return [...this.#groups].toSorted(([one], [other]) => this.#compare(one, other)).slice(0, this.#max);
  }
}
