import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "../rows.ts";
import { usageDays, type UsageCounts, type UsageRow } from "../../../../engine/contract/usage.ts";

// The day is first: what is written today is on few pages, and what expires is at the beginning. `user` and `conversation` are
// empty for none, and begin with `=` otherwise. A call that adds to a row changes one page.
export const usageTable = `
  create table usage(
    day integer not null, agent text not null, user text not null, conversation text not null, model text not null,
    calls integer not null, input integer not null, output integer not null, total integer not null,
    reasoning integer not null, cached integer not null, primary key(day, agent, user, conversation, model)
  ) strict, without rowid;`;

/** A row as it is stored. */
export interface StoredUsage {
  readonly user: string;
  readonly conversation: string;
  readonly model: string;
  readonly calls: number;
  readonly input: number;
  readonly output: number;
  readonly total: number;
  readonly reasoning: number;
  readonly cached: number;
}
export interface UsageDay {
  readonly day: number;
  readonly agentId: string;
  /** Only the rows of this user. */
  readonly user?: string | undefined;
}

/** The statements on usage. All writes run inside a transaction. */
export class UsageTable {
  readonly #statements: Prepared<typeof statements>;

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db, statements);
  }

  add({ day, agentId, userId, conversationId, model, ...counts }: UsageRow): void {
    this.#statements.add.run(day, agentId, toColumn(userId), toColumn(conversationId), model, ...valuesOf(counts));
  }

  /** The first and the last day with usage of any agent. */
  days(): { readonly first: number; readonly last: number } | undefined {
    const { first, last } = this.#statements.days.get() as { first: number | null; last: number | null };
    return first === null || last === null ? undefined : { first, last };
  }

  /** The rows of a day after a given one, ordered by user, conversation and model. */
  rows({ day, agentId, user }: UsageDay, after: StoredUsage | undefined, limit: number): StoredUsage[] {
    const place = [after?.user ?? "", after?.conversation ?? "", after?.model ?? ""];
    const found =
      user === undefined
        ? this.#statements.rows.all(day, agentId, ...place, limit)
        : this.#statements.ofUser.all(day, agentId, user, ...place.slice(1), limit);
    return found as unknown as StoredUsage[]; // the columns of the statement
  }

  /** Removes some rows of days before one. Returns their number. */
  removeBefore(day: number, limit: number): number {
    return Number(this.#statements.remove.run(day, limit).changes);
  }

  /** Lets the rows of a conversation belong to none. `key` is the conversation key. */
  release(key: string, today: number): void {
    const [agent, userId, conversationId] = JSON.parse(key) as [string, string | null, string];
    const place = [agent, toColumn(userId), toColumn(conversationId)] as const;
    // A day more on each side: the clock may have been wrong.
    const days = [today - usageDays - 1, today + 1] as const;
    const found = this.#statements.ofConversation.all(...days, ...place);
    for (const { day, model, calls, input, output, total, reasoning, cached } of found as unknown as (StoredUsage &
      Pick<UsageRow, "day">)[]) {
      this.#statements.add.run(day, place[0], place[1], "", model, calls, input, output, total, reasoning, cached);
      this.#statements.removeRow.run(day, ...place, model);
    }
  }
}

export const toColumn = (id: string | null | undefined): string => (id == null ? "" : `=${id}`);
export const fromColumn = (column: string): string | undefined => (column === "" ? undefined : column.slice(1));

export const toCounts = ({ calls, input, output, total, reasoning, cached }: StoredUsage): UsageCounts => ({
  calls,
  inputTokens: input,
  outputTokens: output,
  totalTokens: total,
  reasoningTokens: reasoning,
  cachedInputTokens: cached,
});
const valuesOf = (counts: UsageCounts): number[] => [
  counts.calls,
  counts.inputTokens,
  counts.outputTokens,
  counts.totalTokens,
  counts.reasoningTokens,
  counts.cachedInputTokens,
];

const columns = "user, conversation, model, calls, input, output, total, reasoning, cached";
const statements = {
  add: `insert into usage(day, agent, ${columns}) values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict do update set calls = calls + excluded.calls, input = input + excluded.input,
      output = output + excluded.output, total = total + excluded.total,
      reasoning = reasoning + excluded.reasoning, cached = cached + excluded.cached`,
  days: "select (select min(day) from usage) as first, (select max(day) from usage) as last",
  rows: `select ${columns} from usage where day = ? and agent = ? and (user, conversation, model) > (?, ?, ?)
    order by user, conversation, model limit ?`,
  ofUser: `select ${columns} from usage where day = ? and agent = ? and user = ? and (conversation, model) > (?, ?)
    order by conversation, model limit ?`,
  // The join follows the order of the text: a seek for each day.
  ofConversation: `with recursive days(n) as (select ?1 union all select n + 1 from days where n < ?2)
    select day, ${columns} from days cross join usage on day = n and agent = ?3 and user = ?4 and conversation = ?5`,
  removeRow: "delete from usage where day = ? and agent = ? and user = ? and conversation = ? and model = ?",
  remove: `delete from usage where (day, agent, user, conversation, model) in
    (select day, agent, user, conversation, model from usage where day < ? limit ?)`,
};
