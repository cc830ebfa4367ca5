import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "./rows.ts";
import type {
  AdmitHistory,
  ChangedMessage,
  History,
  MessageRow,
  PageOptions,
  StoredMessage,
} from "../../../engine/contract/conversations.ts";
import { MessagePage, MessageWindow, numberOf } from "../../../engine/stored/message-rows.ts";
import type { DecidedCall, WaitingCalls } from "../../../engine/stored/pending-calls.ts";
import { ConversationTable } from "./tables/conversation-table.ts";
import { PendingCallTable } from "./tables/pending-call-table.ts";

// A row is one message of the client. `body` has its model messages, and `models` is their number. A row without `ui` is
// older than format 10: its `body` is one model message. `ui` is the last column, so that a turn does not read it.
export const messageTables = `
  create table messages(
    n integer primary key, conversation integer not null, turn text, id text, role text not null, body text not null,
    models integer not null default 1, at integer, ui text
  ) strict;
  create index messages_by_conversation on messages(conversation);
  create index messages_by_id on messages(conversation, id) where id is not null;
  create index messages_by_turn on messages(conversation, turn) where turn is not null;
`;

/** The statements that lead from format 9 to these tables. */
export const messageMigrations: readonly string[] = [
  "alter table messages add column models integer not null default 1",
  "alter table messages add column at integer",
  "alter table messages add column ui text",
];

/** The place of a turn: its conversation, its name, and the first message that it replaces. */
export interface MessagePlace {
  readonly key: string;
  readonly turn: string | undefined;
  readonly until: string | undefined;
}

/** The facts about a turn that its conversation keeps. */
export interface TurnFacts {
  /** The title, if the conversation is new. */
  readonly title: string;
  readonly now: number;
  /** The changes of stored messages, and of calls that wait. */
  readonly changed?: readonly ChangedMessage[] | undefined;
  readonly decided?: readonly DecidedCall[] | undefined;
  readonly waiting?: WaitingCalls | undefined;
}

/** The messages of all conversations. */
export class MessageStore {
  readonly conversations: ConversationTable;
  readonly calls: PendingCallTable;
  readonly #statements: Prepared<typeof statements>;

  constructor(db: DatabaseSync) {
    this.calls = new PendingCallTable(db);
    this.conversations = new ConversationTable(db, this.calls);
    this.#statements = prepare(db, statements);
  }

  async history({ key, turn, until }: MessagePlace, maxBytes: number, admit?: AdmitHistory): Promise<History> {
    const conversation = this.conversations.numberOf(key);
    if (conversation === undefined) return { stored: false, found: false, messages: [], omitted: 0 };
    const own = turn ?? "";
    const stored = this.#statements.any.get(conversation, own) !== undefined;
    const start = this.#start(conversation, until);
    const end = start ?? Number.MAX_SAFE_INTEGER;
    const window = new MessageWindow<Row>(maxBytes);
    // The columns are in the text of the statement below.
    for (const row of this.#statements.last.iterate(conversation, own, end) as Iterable<unknown> as Iterable<Row>) {
      if (!window.add(row, row.models, row.bytes)) break;
    }
    const { rows } = window;
    await admit?.(rows.reduce((sum, { bytes }) => sum + bytes, 0));
    const messages = rows.map(({ n, id, role }) => ({ id: id ?? undefined, role, models: this.#body(n) }));
    return { stored, found: start !== undefined, messages, omitted: window.omitted };
  }

  replace({ key, turn, until }: MessagePlace, messages: readonly StoredMessage[], facts: TurnFacts): void {
    const { title, now } = facts;
    const conversation = this.conversations.numberOf(key) ?? this.conversations.create(key, title, now);
    const start = this.#start(conversation, until);
    const { removeFrom, removeTurn } = this.#statements;
    const removed = [
      ...(start === undefined ? [] : removeFrom.all(conversation, start)),
      ...(turn === undefined ? [] : removeTurn.all(conversation, turn)),
    ] as unknown as { old: 0 | 1 }[]; // the column that the statements return
    for (const { id, role, models, count, at, ui } of messages) {
      this.#statements.add.run(conversation, turn ?? null, id, role, models, count, at, ui);
    }
    this.conversations.change({ conversation, now, added: messages.length, removed });
    if (start !== undefined) this.calls.removeLoose(conversation);
    this.#change(conversation, key, facts);
  }

  #change(conversation: number, key: string, { changed = [], decided = [], waiting }: TurnFacts): void {
    for (const { id, ui, models, count } of changed) {
      this.#statements.change.run(ui, models ?? null, count ?? null, conversation, id);
    }
    for (const call of decided) this.calls.decide(conversation, call);
    const [, userId] = JSON.parse(key) as [string, string | null];
    if (waiting) this.calls.replace(conversation, userId ?? undefined, waiting);
  }

  page(key: string, { before, limit }: PageOptions): MessageRow[] {
    const conversation = this.conversations.numberOf(key);
    if (conversation === undefined) return [];
    const end =
      before === undefined ? Number.MAX_SAFE_INTEGER : (this.#start(conversation, before) ?? numberOf(before));
    if (end === undefined) return [];
    const page = new MessagePage<PageRow & { isOld: boolean }>(limit);
    // The columns are in the text of the statement below.
    for (const row of this.#statements.page.iterate(conversation, end) as Iterable<unknown> as Iterable<PageRow>) {
      if (!page.add({ ...row, isOld: row.uiBytes === null }, row.uiBytes ?? row.bytes)) break;
    }
    return page.rows.map(({ n, id, role, isOld }) => ({
      number: n,
      id: id ?? undefined,
      role,
      ...(isOld ? { models: this.#body(n) } : { ui: this.#ui(n) }),
    }));
  }

  #body(n: number): string {
    return (this.#statements.body.get(n) as { body: string }).body;
  }

  #ui(n: number): string {
    return (this.#statements.ui.get(n) as { ui: string }).ui;
  }

  #start(conversation: number, until: string | undefined): number | undefined {
    if (until === undefined) return undefined;
    return (this.#statements.start.get(conversation, until) as { n: number | null }).n ?? undefined;
  }
}

interface Row {
  n: number;
  id: string | null;
  role: string;
  /** The bytes of the body. */
  bytes: number;
  models: number;
}
interface PageRow {
  n: number;
  id: string | null;
  role: string;
  bytes: number;
  uiBytes: number | null;
}

// A turn that runs again does not see what it stored the first time.
const others = "conversation = ?1 and (turn is null or turn <> ?2)";
const statements = {
  any: `select 1 from messages where ${others} limit 1`,
  start: "select min(n) as n from messages where conversation = ? and id = ?",
  // The header of a row has the length of each text: the texts of a skipped message are not read.
  last: `select n, id, role, octet_length(body) as bytes, models
    from messages where ${others} and n < ?3 order by n desc`,
  page: `select n, id, role, octet_length(body) as bytes, octet_length(ui) as uiBytes
    from messages where conversation = ? and n < ? order by n desc`,
  body: "select body from messages where n = ?",
  ui: "select ui from messages where n = ?",
  removeFrom: "delete from messages where conversation = ? and n >= ? returning ui is null as old",
  removeTurn: "delete from messages where conversation = ? and turn = ? returning ui is null as old",
  change: `update messages set ui = ?1, body = coalesce(?2, body), models = coalesce(?3, models)
    where n = (select max(n) from messages where conversation = ?4 and id = ?5)`,
  add: "insert into messages(conversation, turn, id, role, body, models, at, ui) values(?, ?, ?, ?, ?, ?, ?, ?)",
};
