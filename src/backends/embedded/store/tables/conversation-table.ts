import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "../rows.ts";
import { isContinued } from "../../../../engine/stored/message-rows.ts";
import type { PendingCallTable } from "./pending-call-table.ts";
import { toTitle, type Renaming, type StoredConversation } from "../../../../engine/stored/stored-conversation.ts";

// `key` is the text of agent, user and id, and `owner` the text of agent and user. The number is the order of the creation. A row
// with the owner `deleted` is not found any more, and has messages that are yet to be removed.
export const conversationTable = `
  create table conversations(
    conversation integer primary key, key text not null unique, owner text not null default '', title text not null default '',
    created integer, updated integer not null default 0, messages integer not null default 0
  ) strict;
  create index conversations_by_owner on conversations(owner, conversation);
  create index conversations_by_update on conversations(updated);`;

/** Leads from format 10 to this table. Conversations from format 9 and before get no creation time. */
export function addConversationRows(db: DatabaseSync): void {
  db.exec(`alter table conversations add column owner text not null default '';
    alter table conversations add column title text not null default '';
    alter table conversations add column created integer;
    alter table conversations add column updated integer not null default 0;
    alter table conversations add column messages integer not null default 0`);
  const firstQuestion = db.prepare(
    "select body from messages where conversation = ? and role = 'user' order by n limit 1",
  );
  const times = db.prepare("select min(at) as created, max(at) as updated from messages where conversation = ?");
  const rows = db.prepare(statements.rows);
  const fill = db.prepare(
    "update conversations set owner = ?, title = ?, created = ?, updated = ?, messages = ? where conversation = ?",
  );
  const now = Date.now();
  const all = db.prepare("select conversation, key from conversations").all();
  // The columns are in the texts of the statements.
  for (const { conversation, key } of all as unknown as Pick<TableRow, "conversation" | "key">[]) {
    const question = firstQuestion.get(conversation) as { body: string } | undefined;
    const { created, updated } = times.get(conversation) as { created: number | null; updated: number | null };
    const count = countMessages(rows.iterate(conversation) as Iterable<unknown> as Iterable<MessageKind>);
    const title = toTitle(question ? textOf(JSON.parse(question.body)) : "");
    fill.run(ownerOf(key), title, created, updated ?? now, count, conversation);
  }
  db.exec(`create index conversations_by_owner on conversations(owner, conversation);
    create index conversations_by_update on conversations(updated)`);
}

/** Returns the text of a model message, or of several. */
function textOf(body: unknown): string {
  if (Array.isArray(body)) return body.map(textOf).join(" ");
  const { content, text } = (body ?? {}) as { content?: unknown; text?: unknown };
  if (typeof content === "string") return content;
  return content === undefined ? (typeof text === "string" ? text : "") : textOf(content);
}

const ownerOf = (key: string): string => JSON.stringify((JSON.parse(key) as unknown[]).slice(0, 2));
const idOf = (key: string): string => (JSON.parse(key) as [string, string | null, string])[2];

interface MessageKind {
  readonly id: string | null;
  readonly role: string;
  readonly old: 0 | 1;
}
/** Counts messages as a client sees them: several old rows may be one. */
function countMessages(rows: Iterable<MessageKind>): number {
  let count = 0;
  let before: { id: string | null; role: string; isOld: boolean } | undefined;
  for (const { id, role, old } of rows) {
    const row = { id, role, isOld: old === 1 };
    if (!before || !isContinued(row, before)) count++;
    before = row;
  }
  return count;
}

/** A conversation as the table has it. */
export type ConversationRow = Omit<StoredConversation, "isRunning"> & { readonly key: string };

/** The change that a turn makes to its conversation. */
export interface ConversationChange {
  readonly conversation: number;
  readonly now: number;
  readonly added: number;
  /** The rows that were removed: whether each is older than format 10. */
  readonly removed: readonly { readonly old: 0 | 1 }[];
}

/** The statements on conversations. All writes run inside a transaction. */
export class ConversationTable {
  readonly #calls: PendingCallTable;
  readonly #statements: Prepared<typeof statements>;

  constructor(db: DatabaseSync, calls: PendingCallTable) {
    this.#calls = calls;
    this.#statements = prepare(db, statements);
  }

  numberOf(key: string): number | undefined {
    return (this.#statements.find.get(key) as { conversation: number } | undefined)?.conversation;
  }
  find(key: string): ConversationRow | undefined {
    const row = this.#statements.find.get(key) as TableRow | undefined;
    return row && toConversation(row);
  }
  /** An owner's conversations that are older than a given one, newest first. */
  list(owner: string, before: number, limit: number): ConversationRow[] {
    return (this.#statements.list.all(owner, before, limit) as unknown as TableRow[]).map(toConversation);
  }
  create(key: string, title: string, now: number): number {
    return Number(this.#statements.create.run(key, ownerOf(key), title, now, now).lastInsertRowid);
  }
  change({ conversation, now, added, removed }: ConversationChange): void {
    if (removed.every(({ old }) => !old)) {
      this.#statements.change.run(now, added - removed.length, conversation);
      return;
    }
    const rows = this.#statements.rows.iterate(conversation) as Iterable<unknown> as Iterable<MessageKind>;
    this.#statements.recount.run(now, countMessages(rows), conversation);
  }
  rename(key: string, { title, from = null as never }: Renaming): boolean {
    return this.#statements.rename.run(title, key, from).changes === 1;
  }

  /** The keys of conversations without a turn since a time, the oldest first. */
  expired(before: number, limit: number): string[] {
    const rows = this.#statements.expired.all(before, limit) as { key: string }[];
    return rows.map(({ key }) => key);
  }
  /** Deletes a conversation. Its messages are still in the file. Returns its number; undefined if there is none. */
  hide(key: string): number | undefined {
    const number = this.numberOf(key);
    if (number === undefined) return undefined;
    this.#statements.hide.run(number);
    this.#calls.remove(number);
    return number;
  }
  /** Removes some messages of a conversation that was deleted. Returns false if there are more. */
  purge(conversation: number): boolean {
    if (this.#statements.removeMessages.run(conversation, purgedAtOnce).changes === purgedAtOnce) return false;
    this.#statements.remove.run(conversation);
    return true;
  }
  /** A deleted conversation whose messages are not all removed yet. */
  hidden(): number | undefined {
    return (this.#statements.hidden.get() as { conversation: number } | undefined)?.conversation;
  }
}

/** The messages of one transaction: few, so that requests do not notice. */
const purgedAtOnce = 50;

interface TableRow {
  readonly conversation: number;
  readonly key: string;
  readonly title: string;
  readonly created: number | null;
  readonly updated: number;
  readonly messages: number;
}
const toConversation = ({ conversation, key, title, created, updated, messages }: TableRow): ConversationRow => ({
  key,
  id: idOf(key),
  title,
  createdAt: created,
  updatedAt: updated,
  messageCount: messages,
  cursor: String(conversation),
});

const statements = {
  find: "select * from conversations where key = ?",
  list: "select * from conversations where owner = ? and conversation < ? order by conversation desc limit ?",
  create: "insert into conversations(key, owner, title, created, updated) values(?, ?, ?, ?, ?)",
  change: "update conversations set updated = ?, messages = messages + ? where conversation = ?",
  recount: "update conversations set updated = ?, messages = ? where conversation = ?",
  rows: "select id, role, ui is null as old from messages where conversation = ? order by n",
  rename: "update conversations set title = ?1 where key = ?2 and (?3 is null or title = ?3)",
  expired: "select key from conversations where updated < ? and owner <> 'deleted' order by updated limit ?",
  // No key of a conversation is a number.
  hide: `update conversations set key = conversation, owner = 'deleted', title = '' where conversation = ?`,
  hidden: "select conversation from conversations where owner = 'deleted' limit 1",
  removeMessages: `delete from messages where n in
    (select n from messages where conversation = ? order by n limit ?)`,
  remove: "delete from conversations where conversation = ?",
};
