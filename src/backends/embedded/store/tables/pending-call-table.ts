import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "../rows.ts";
import type {
  CallOutcome,
  DecidedCall,
  FoundCall,
  PendingCall,
  WaitingCalls,
} from "../../../../engine/stored/pending-calls.ts";

// `body` has the facts that are only read. Of the calls of one message, the first has the `origin`. Calls with an outcome are
// kept as long as their message, so that a second decision hears of the first.
export const pendingCallTable = `
  create table pending_calls(
    n integer primary key, conversation integer not null, id text not null unique, type text not null, user text,
    message text not null, body text not null, input text not null, origin text, outcome text
  ) strict;
  create index pending_calls_by_conversation on pending_calls(conversation);
  create index pending_calls_open on pending_calls(user, n) where outcome is null;`;

/** The statements on calls that wait. All writes run inside a transaction. */
export class PendingCallTable {
  readonly #statements: Prepared<typeof statements>;

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db, statements);
  }

  find(id: string): FoundCall | undefined {
    const row = this.#statements.find.get(id) as CallRow | undefined;
    return row && toCall(row);
  }
  /** The calls that wait for an approval, oldest first, of one user or everyone. */
  list(owner: { readonly userId?: string | undefined } | undefined, after: number, limit: number): FoundCall[] {
    const { list, listOf } = this.#statements;
    const rows = owner ? listOf.all(owner.userId ?? null, after, limit) : list.all(after, limit);
    return (rows as unknown as CallRow[]).map(toCall); // the columns of the statements
  }

  /** The calls that wait for an execution, oldest first. */
  listExecutions(after: number, limit: number): FoundCall[] {
    return (this.#statements.listExecutions.all(after, limit) as unknown as CallRow[]).map(toCall);
  }

  /** Replaces the calls of a conversation that wait. */
  replace(conversation: number, userId: string | undefined, { calls, origin }: WaitingCalls): void {
    this.#statements.removeOpen.run(conversation);
    for (const [index, { id, type, messageId, input, toolCallId, toolName, via, at }] of calls.entries()) {
      const body = JSON.stringify({ toolCallId, toolName, via, at } satisfies Facts);
      const first = index === 0 ? origin : null;
      this.#statements.add.run(conversation, id, type, userId ?? null, messageId, body, input, first);
    }
  }
  decide(conversation: number, { id, outcome }: DecidedCall): void {
    this.#statements.decide.run(JSON.stringify(outcome), conversation, id);
  }
  /** Removes the calls of messages that are gone. */
  removeLoose(conversation: number): void {
    this.#statements.removeLoose.run(conversation);
  }
  remove(conversation: number): void {
    this.#statements.remove.run(conversation);
  }
}

type Facts = Pick<PendingCall, "toolCallId" | "toolName" | "via" | "at">;
interface CallRow {
  readonly n: number;
  readonly id: string;
  readonly type: PendingCall["type"];
  readonly message: string;
  /** JSON of `Facts`. */
  readonly body: string;
  readonly input: string;
  readonly origin: string | null;
  /** JSON of a `CallOutcome`. */
  readonly outcome: string | null;
  /** The key of the conversation. */
  readonly key: string;
}
function toCall({ n, id, type, message, body, input, origin, outcome, key }: CallRow): FoundCall {
  const [agentId, userId, conversationId] = JSON.parse(key) as [string, string | null, string];
  return {
    ...(JSON.parse(body) as Facts),
    id,
    type,
    messageId: message,
    input,
    outcome: outcome === null ? undefined : (JSON.parse(outcome) as CallOutcome),
    origin: origin ?? undefined,
    key: { agentId, userId: userId ?? undefined, conversationId },
    cursor: String(n),
  };
}

const columns = `n, id, type, message, body, input, outcome, key,
  (select origin from pending_calls as first where first.conversation = pending_calls.conversation
    and first.message = pending_calls.message and first.origin is not null order by first.n desc limit 1) as origin`;
const open = `select ${columns} from pending_calls join conversations using (conversation)
  where outcome is null and type = 'approval'`;
const statements = {
  find: `select ${columns} from pending_calls join conversations using (conversation) where id = ?`,
  list: `${open} and n > ? order by n limit ?`,
  listExecutions: `select ${columns} from pending_calls join conversations using (conversation)
    where outcome is null and type = 'execution' and n > ? order by n limit ?`,
  listOf: `${open} and user is ? and n > ? order by n limit ?`,
  add: `insert or ignore into pending_calls(conversation, id, type, user, message, body, input, origin)
    values(?, ?, ?, ?, ?, ?, ?, ?)`,
  decide: "update pending_calls set outcome = ?, input = '' where conversation = ? and id = ? and outcome is null",
  removeOpen: "delete from pending_calls where conversation = ? and outcome is null",
  removeLoose: `delete from pending_calls where conversation = ?1 and not exists
    (select 1 from messages where messages.conversation = ?1 and messages.id = pending_calls.message)`,
  remove: "delete from pending_calls where conversation = ?",
};
