import type { History, PageOptions } from "../../../engine/contract/conversations.ts";
import { MessagePage, MessageWindow, numberOf } from "../../../engine/stored/message-rows.ts";
import { readAll, type SharedState, type State } from "../state.ts";

/**
 * The state of a conversation's object, by key. Messages are numbered in their order; a number may be free.
 *
 * - line      the line of turns (`line`)
 * - size      the next number, and the count of messages
 * - info …    see `info`
 * - call …    see `calls`
 * - m<n>      the model messages of a message
 * - u<n>      the UI message
 * - p<k>      the rows of the messages from 50k to 50k + 49
 * - i<id>     the numbers of the messages with this id
 * - t<name>   the numbers of a named turn: the first one, and the one after its last
 */
export interface Size {
  readonly next: number;
  readonly count: number;
}
/**
 * A message without its texts. `bytes` is the size of the model messages, `count` their number. A row without a count is
 * older: it is one model message, and has no UI message. Its `bytes` may be the number of characters.
 */
export type Row = readonly [
  number: number,
  role: string,
  bytes: number,
  id: string | null,
  turn: string | null,
  count?: number,
  uiBytes?: number,
  at?: number | null,
];
export type Range = readonly [from: number, end: number];

const pageSize = 50;
export const toPage = (number: number): number => Math.floor(number / pageSize);
export const modelsKey = (number: number): string => `m${number}`;
export const uiKey = (number: number): string => `u${number}`;
export const pageKey = (page: number): string => `p${page}`;
// As JSON, because a key is UTF-8: it has no place for half of a surrogate pair.
export const idKey = (id: string): string => `i${JSON.stringify(id)}`;
export const turnKey = (name: string): string => `t${JSON.stringify(name)}`;

/** The place of a turn: its name, and the first message that it replaces. */
export interface MessagePlace {
  readonly name?: string | undefined;
  readonly until?: string | undefined;
}

/** A history with the texts of its first messages. `readModels` reads the others: Restate sends at most 32 MiB at once. */
export interface PartialHistory extends Omit<History, "messages"> {
  readonly rows: readonly HistoryPlace[];
  readonly models: readonly string[];
}
/** A message of a history. */
interface HistoryPlace extends TextPlace {
  readonly id: string | null;
  readonly role: string;
}
/** The place of a text, and its size. */
interface TextPlace {
  readonly number: number;
  readonly bytes: number;
}

/** Reads the last messages before a place. A turn that runs again does not see what it stored the first time. */
export async function readPriorMessages(state: State, place: MessagePlace, maxBytes: number): Promise<PartialHistory> {
  const { size, own, start } = await readPlace(state, place);
  const [ownFrom, ownEnd] = own ?? [0, 0];
  const window = new MessageWindow<HistoryPlace>(maxBytes);
  await readBack(state, start ?? size.next, ([number, role, bytes, id, , count = 1]) => {
    return (number >= ownFrom && number < ownEnd) || window.add({ number, role, bytes, id }, count, bytes);
  });
  const { rows, omitted } = window;
  const models = await readModels(state, toBatch(rows).map(toNumber));
  return { stored: size.count > ownEnd - ownFrom, found: start !== undefined, omitted, rows, models };
}

/** Reads the model messages of messages, by their numbers. */
export async function readModels(state: State, numbers: readonly number[]): Promise<string[]> {
  const texts = await readAll<string>(state, numbers.map(modelsKey));
  return texts.map((text) => text ?? ""); // written with its row
}

/** Returns the first messages whose texts fit into one answer. */
export function toBatch<T extends TextPlace>(rows: readonly T[]): readonly T[] {
  let sum = 0;
  const end = rows.findIndex(({ bytes }, index) => (sum += bytes) > batchBytes && index > 0);
  return end === -1 ? rows : rows.slice(0, end);
}
export const toNumber = ({ number }: TextPlace): number => number;
/** A text of JSON takes up to twice its size within JSON. A longer one is alone: it was stored in one call, so it fits. */
const batchBytes = 8_388_608;

/** Some texts of a page of messages. */
export interface PartialPage {
  readonly rows: readonly PagePlace[];
  /** Null: a turn has removed the message meanwhile. */
  readonly texts: readonly (string | null)[];
}
/** A message of a page. Its text is that of the model messages if it is old, or else of the UI message. */
interface PagePlace extends TextPlace {
  readonly id: string | null;
  readonly role: string;
  readonly isOld: boolean;
}

/** Reads a page of messages, as clients see them, with as many texts from an index on as fit into one answer. */
export async function readPage(state: SharedState, { before, limit }: PageOptions, from: number): Promise<PartialPage> {
  const { size, start = numberOf(before) } = await readPlace(state, { until: before });
  if (before !== undefined && start === undefined) return { rows: [], texts: [] };
  const page = new MessagePage<PagePlace>(limit);
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

/** The messages of a conversation, those of a turn, and the number of a message. */
interface FoundPlace {
  readonly size: Size;
  readonly own: Range | undefined;
  readonly start: number | undefined;
}
export async function readPlace(state: SharedState, { name, until }: MessagePlace): Promise<FoundPlace> {
  // A key that is never set stands for an absent name or id.
  const keys = ["size", name === undefined ? "-" : turnKey(name), until === undefined ? "-" : idKey(until)];
  const [size, own, numbers] = await readAll(state, keys);
  return {
    size: (size as Size | null) ?? { next: 0, count: 0 },
    own: (own as Range | null) ?? undefined,
    start: (numbers as number[] | null)?.[0],
  };
}
