import type { DatabaseSync, StatementSync } from "node:sqlite";
import { maxBytes, maxMessages, windowSize, type History, type StoredMessage } from "../../../engine/conversations.ts";

export const messageTables = `
  create table conversations(conversation integer primary key, key text not null unique) strict;
  create table messages(
    n integer primary key, conversation integer not null, turn text, id text, role text not null, body text not null
  ) strict;
  create index messages_by_conversation on messages(conversation);
  create index messages_by_id on messages(conversation, id) where id is not null;
  create index messages_by_turn on messages(conversation, turn) where turn is not null;
`;

/** The place of a turn: its conversation, its name, and the first message that it replaces. */
export interface Place {
  readonly key: string;
  readonly turn: string | undefined;
  readonly until: string | undefined;
}

/** The messages of all conversations: every statement on their tables. */
export class MessageStore {
  readonly #statements: Record<keyof typeof statements, StatementSync>;

  constructor(db: DatabaseSync) {
    const prepared = Object.entries(statements).map(([name, sql]) => [name, db.prepare(sql)]);
    this.#statements = Object.fromEntries(prepared) as Record<keyof typeof statements, StatementSync>;
  }

  history({ key, turn, until }: Place): History {
    const conversation = this.#find(key);
    if (conversation === undefined) return { stored: false, found: false, messages: [] };
    const own = turn ?? "";
    const stored = this.#statements.any.get(conversation, own) !== undefined;
    const start = this.#start(conversation, until);
    const rows = this.#last(conversation, own, start ?? Number.MAX_SAFE_INTEGER);
    const messages = rows.map(({ id, role, body }) => ({ id: id ?? undefined, role, body }));
    return { stored, found: start !== undefined, messages };
  }

  replace({ key, turn, until }: Place, messages: readonly StoredMessage[]): void {
    const conversation = this.#find(key) ?? Number(this.#statements.create.run(key).lastInsertRowid);
    const start = this.#start(conversation, until);
    if (start !== undefined) this.#statements.removeFrom.run(conversation, start);
    if (turn !== undefined) this.#statements.removeTurn.run(conversation, turn);
    for (const { id, role, body } of messages) {
      this.#statements.add.run(conversation, turn ?? null, id ?? null, role, body);
    }
  }

  #last(conversation: number, own: string, end: number): Row[] {
    const rows: Row[] = [];
    let bytes = 0;
    // The columns are in the text of the statement below.
    for (const row of this.#statements.last.iterate(conversation, own, end) as Iterable<unknown> as Iterable<Row>) {
      bytes += row.body.length;
      if (rows.length > 0 && bytes > maxBytes) break;
      rows.push(row);
      const reachesUser = rows.length >= windowSize && rows.some(({ role }) => role === "user");
      if (reachesUser || rows.length === maxMessages) break;
    }
    return rows.toReversed();
  }

  #find(key: string): number | undefined {
    return (this.#statements.find.get(key) as { conversation: number } | undefined)?.conversation;
  }

  #start(conversation: number, until: string | undefined): number | undefined {
    if (until === undefined) return undefined;
    return (this.#statements.start.get(conversation, until) as { n: number | null }).n ?? undefined;
  }
}

interface Row {
  id: string | null;
  role: string;
  body: string;
}

// A turn that runs again does not see what it stored the first time.
const others = "conversation = ?1 and (turn is null or turn <> ?2)";
const statements = {
  find: "select conversation from conversations where key = ?",
  create: "insert into conversations(key) values(?)",
  any: `select 1 from messages where ${others} limit 1`,
  start: "select min(n) as n from messages where conversation = ? and id = ?",
  last: `select id, role, body from messages where ${others} and n < ?3 order by n desc`,
  removeFrom: "delete from messages where conversation = ? and n >= ?",
  removeTurn: "delete from messages where conversation = ? and turn = ?",
  add: "insert into messages(conversation, turn, id, role, body) values(?, ?, ?, ?, ?)",
};
