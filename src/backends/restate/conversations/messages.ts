import type { ChangedMessage, History, PageOptions, StoredMessage } from "../../../engine/contract/conversations.ts";
import { MessagePage, MessageWindow, numberOf } from "../../../engine/stored/message-rows.ts";
import { readAll, type SharedState, type State } from "../calls.ts";

/**
 * The state of a conversation's object, by key. Messages are numbered in their order; a number may be free.
 *
 * - line      the line of turns (`line`)
 * - size      the next number, and the count of messages
 * - info …    see `info`
 * - call …    see `calls`
 * - m<n>      the model messages of a message
 * - u<n>      the UI message
 * - p<k>      the rows of messages 50k to 50k + 49
 * - i<id>     the numbers of the messages with this id
 * - t<name>   the numbers of a named turn: the first one, and the one after the last
 */
interface Size {
  readonly next: number;
  readonly count: number;
}
/**
 * A message without its texts. `bytes` is the size of the model messages, `count` their number. A row without a count is
 * older: it is one model message, and has no UI message. Its `bytes` may be the number of characters.
 */
type Row = readonly [
  number: number,
  role: string,
  bytes: number,
  id: string | null,
  turn: string | null,
  count?: number,
  uiBytes?: number,
  at?: number | null,
];
type Range = readonly [from: number, end: number];

const pageSize = 50;
const toPage = (number: number): number => Math.floor(number / pageSize);
const modelsKey = (number: number): string => `m${number}`;
const uiKey = (number: number): string => `u${number}`;
const pageKey = (page: number): string => `p${page}`;
// As JSON, because a key is UTF-8: it has no place for half of a surrogate pair.
const idKey = (id: string): string => `i${JSON.stringify(id)}`;
const turnKey = (name: string): string => `t${JSON.stringify(name)}`;

/** The place of a turn: its name, and the first message that it replaces. */
interface MessagePlace {
  readonly name?: string | undefined;
  readonly until?: string | undefined;
}

/** A history with the texts of its first messages. `readModels` reads the others: Restate sends at most 32 MiB at once. */
export interface PartialHistory extends Omit<History, "messages"> {
  readonly rows: readonly HistoryMessage[];
  readonly models: readonly string[];
}
interface HistoryMessage extends MessageText {
  readonly id: string | null;
  readonly role: string;
}
/** A stored text: the number of its message, and its size. */
interface MessageText {
  readonly number: number;
  readonly bytes: number;
}

/** Reads the last messages before a place. A turn that runs again does not see what it stored the first time. */
export async function readPriorMessages(state: State, place: MessagePlace, maxBytes: number): Promise<PartialHistory> {
  const { size, own, start } = await readPlace(state, place);
  const [ownFrom, ownEnd] = own ?? [0, 0];
  const window = new MessageWindow<HistoryMessage>(maxBytes);
  await readBack(state, start ?? size.next, ([number, role, bytes, id, , count = 1]) => {
    return (number >= ownFrom && number < ownEnd) || window.add({ number, role, bytes, id }, count, bytes);
  });
  const { rows, omitted } = window;
  const models = await readModels(state, toBatch(rows).map(toNumber));
  return { stored: size.count > ownEnd - ownFrom, found: start !== undefined, omitted, rows, models };
}

export async function readModels(state: State, numbers: readonly number[]): Promise<string[]> {
  const texts = await readAll<string>(state, numbers.map(modelsKey));
  return texts.map((text) => text ?? ""); // written with its row
}

/** Returns the first messages whose texts fit into one answer. */
export function toBatch<T extends MessageText>(rows: readonly T[]): readonly T[] {
  let sum = 0;
  const end = rows.findIndex(({ bytes }, index) => (sum += bytes) > batchBytes && index > 0);
  return end === -1 ? rows : rows.slice(0, end);
}
export const toNumber = ({ number }: MessageText): number => number;
/** A text of JSON takes up to twice its size within JSON. A longer one is alone: it was stored in one call, so it fits. */
const batchBytes = 8_388_608;

/** A page of messages, with the texts that fit into one answer. */
export interface PartialPage {
  readonly rows: readonly PageMessage[];
  /** Null: a turn has removed the message meanwhile. */
  readonly texts: readonly (string | null)[];
}
/** A message of a page. Its text has the model messages if it is old, or else the UI message. */
interface PageMessage extends MessageText {
  readonly id: string | null;
  readonly role: string;
  readonly isOld: boolean;
}

/** Reads a page of messages, as clients see them, with as many texts from an index on as fit into one answer. */
export async function readPage(state: SharedState, { before, limit }: PageOptions, from: number): Promise<PartialPage> {
  const { size, start = numberOf(before) } = await readPlace(state, { until: before });
  if (before !== undefined && start === undefined) return { rows: [], texts: [] };
  const page = new MessagePage<PageMessage>(limit);
  await readBack(state, start ?? size.next, ([number, role, length, id, , count, bytes = length]) =>
    page.add({ number, id, role, bytes, isOld: count === undefined }, bytes),
  );
  const { rows } = page;
  const keys = toBatch(rows.slice(from)).map(({ number, isOld }) => (isOld ? modelsKey : uiKey)(number));
  return { rows, texts: await readAll<string>(state, keys) };
}

/** Reads the rows before a number, from the last one back, until one is not taken. */
async function readBack({ context }: SharedState, end: number, take: (row: Row) => boolean): Promise<void> {
  for (let page = toPage(end - 1); page >= 0; page--) {
    const rows = ((await context.get<Row[]>(pageKey(page))) ?? []).filter(([number]) => number < end);
    if (!rows.toReversed().every(take)) return;
  }
}

/** Reads the size of the conversation, the range of the turn, and the number of the message. */
async function readPlace(state: SharedState, { name, until }: MessagePlace) {
  // A key that is never set stands for an absent name or id.
  const keys = ["size", name === undefined ? "-" : turnKey(name), until === undefined ? "-" : idKey(until)];
  const [found, own, numbers] = (await readAll(state, keys)) as [Size | null, Range | null, number[] | null]; // as stored
  const size: Size = found ?? { next: 0, count: 0 };
  return { size, own, start: numbers?.[0] };
}

/** The result of a store: the count of all messages, and the ids of removed ones. */
interface Replaced {
  readonly count: number;
  readonly gone: readonly string[];
}

/** Stores messages in place of all from `until` on, and of those that the same turn stored before. */
export async function replaceMessages(
  state: State,
  place: MessagePlace,
  messages: readonly StoredMessage[],
): Promise<Replaced> {
  const { context } = state;
  const { name } = place;
  const { size, own, start } = await readPlace(state, place);
  const from = start ?? size.next;
  const pages = new Pages(state);
  const removed = await pages.remove(from, size.next);
  if (own) removed.push(...(await pages.remove(...own)));
  const added = messages.map(({ id, role, models, count, ui, at }, index): Row => [
    from + index,
    role,
    Buffer.byteLength(models),
    id,
    name ?? null,
    count,
    Buffer.byteLength(ui),
    at,
  ]);
  await pages.add(added);
  pages.write();
  for (const [number, , , , , count] of removed) {
    context.clear(modelsKey(number));
    if (count !== undefined) context.clear(uiKey(number));
  }
  for (const [index, { models, ui }] of messages.entries()) {
    context.set(modelsKey(from + index), models);
    context.set(uiKey(from + index), ui);
  }
  await changeIds(state, removed, added);
  await cutTurns(state, removed, from);
  const next = from + added.length;
  if (name !== undefined && added.length > 0) context.set<Range>(turnKey(name), [from, next]);
  else if (own) context.clear(turnKey(name ?? "")); // only a named turn has messages of its own
  const count = size.count - removed.length + added.length;
  context.set<Size>("size", { next, count });
  const kept = new Set(messages.map(({ id }) => id));
  return { count, gone: removed.flatMap(([, , , id]) => (id === null || kept.has(id) ? [] : [id])) };
}

/** Changes the texts of stored messages, in their places. */
export async function changeMessages({ context }: State, changed: readonly ChangedMessage[]): Promise<void> {
  for (const { id, ui, models, count } of changed) {
    const number = (await context.get<number[]>(idKey(id)))?.at(-1);
    if (number === undefined) continue;
    const key = pageKey(toPage(number));
    const rows = (await context.get<Row[]>(key)) ?? [];
    context.set(
      key,
      rows.map((row): Row => {
        const [n, role, bytes, rowId, turn, before = 1, , at] = row;
        if (n !== number) return row;
        const size = models === undefined ? bytes : Buffer.byteLength(models);
        return [n, role, size, rowId, turn, count ?? before, Buffer.byteLength(ui), at];
      }),
    );
    context.set(uiKey(number), ui);
    if (models !== undefined) context.set(modelsKey(number), models);
  }
}

/** Keeps the numbers of each id in order. */
async function changeIds(state: State, removed: readonly Row[], added: readonly Row[]): Promise<void> {
  const { context } = state;
  const changed = Map.groupBy([...removed, ...added], ([, , , id]) => (id === null ? "" : idKey(id)));
  changed.delete("");
  const known = await readAll<number[]>(state, [...changed.keys()]);
  const gone = new Set(removed);
  for (const [index, [key, rows]] of [...changed].entries()) {
    const numbers = new Set(known[index]);
    for (const row of rows) {
      if (gone.has(row)) numbers.delete(row[0]);
      else numbers.add(row[0]);
    }
    if (numbers.size > 0) context.set(key, [...numbers]);
    else context.clear(key);
  }
}

/** Cuts the ranges of named turns whose messages from a number on were removed. */
async function cutTurns(state: State, removed: readonly Row[], from: number): Promise<void> {
  const { context } = state;
  const cut = removed.filter(([number]) => number >= from).flatMap(([, , , , turn]) => (turn === null ? [] : [turn]));
  const keys = [...new Set(cut)].map(turnKey);
  const ranges = await readAll<Range>(state, keys);
  for (const [index, key] of keys.entries()) {
    const first = ranges[index]?.[0];
    if (first !== undefined && first < from) context.set<Range>(key, [first, from]);
    else context.clear(key);
  }
}

/** The pages of rows that one store changes. */
class Pages {
  readonly #state: State;
  readonly #rows = new Map<number, Row[]>();

  constructor(state: State) {
    this.#state = state;
  }

  /** Removes the rows of a range, and returns them. */
  async remove(from: number, end: number): Promise<Row[]> {
    const removed: Row[] = [];
    for (const [page, rows] of await this.#load(from, end)) {
      const { true: inside = [], false: rest = [] } = Object.groupBy(rows, ([n]) => `${n >= from && n < end}`);
      removed.push(...inside);
      this.#rows.set(page, rest);
    }
    return removed;
  }

  /** Adds rows at the end. */
  async add(added: readonly Row[]): Promise<void> {
    const [first] = added;
    if (!first) return;
    const pages = new Map(await this.#load(first[0], first[0] + added.length));
    for (const row of added) pages.get(toPage(row[0]))?.push(row);
  }

  write(): void {
    for (const [page, rows] of this.#rows) {
      if (rows.length > 0) this.#state.context.set(pageKey(page), rows);
      else this.#state.context.clear(pageKey(page));
    }
  }

  async #load(from: number, end: number): Promise<(readonly [page: number, rows: Row[]])[]> {
    if (from >= end) return [];
    const pages = Array.from({ length: toPage(end - 1) - toPage(from) + 1 }, (_, index) => toPage(from) + index);
    const missing = pages.filter((page) => !this.#rows.has(page));
    const found = await readAll<Row[]>(this.#state, missing.map(pageKey));
    for (const [index, page] of missing.entries()) this.#rows.set(page, found[index] ?? []);
    return pages.map((page) => [page, this.#rows.get(page) ?? []]);
  }
}
