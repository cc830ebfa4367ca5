import type { ChangedMessage, StoredMessage } from "../../../engine/contract/conversations.ts";
import { readAll, type State } from "../state.ts";
import {
  toPage,
  modelsKey,
  uiKey,
  pageKey,
  idKey,
  turnKey,
  readPlace,
  type Size,
  type Row,
  type Range,
  type MessagePlace,
} from "./messages.ts";

/** The result of a store: the count of all messages, and the ids of those that are not there any more. */
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
  else if (own) context.clear(turnKey(name!)); // only a named turn has messages of its own
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
  const changed = Map.groupBy([...removed, ...added], ([, , , id]) => id);
  changed.delete(null);
  const keys = [...changed.keys()].map((id) => idKey(id!)); // without the null
  const known = await readAll<number[]>(state, keys);
  const gone = new Set(removed);
  for (const [index, rows] of [...changed.values()].entries()) {
    const numbers = new Set(known[index]);
    for (const row of rows) {
      if (gone.has(row)) numbers.delete(row[0]);
      else numbers.add(row[0]);
    }
    if (numbers.size > 0) context.set(keys[index]!, [...numbers]);
    else context.clear(keys[index]!);
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
    for (const page of await this.#load(from, end)) {
      const rows = this.#rows.get(page)!;
      const isRemoved = ([number]: Row): boolean => number >= from && number < end;
      removed.push(...rows.filter(isRemoved));
      this.#rows.set(
        page,
        rows.filter((row) => !isRemoved(row)),
      );
    }
    return removed;
  }

  /** Adds rows at the end. */
  async add(added: readonly Row[]): Promise<void> {
    const [first] = added;
    if (first) await this.#load(first[0], first[0] + added.length);
    for (const row of added) this.#rows.get(toPage(row[0]))!.push(row);
  }

  write(): void {
    for (const [page, rows] of this.#rows) {
      if (rows.length > 0) this.#state.context.set(pageKey(page), rows);
      else this.#state.context.clear(pageKey(page));
    }
  }

  async #load(from: number, end: number): Promise<number[]> {
    if (from >= end) return [];
    const pages = Array.from({ length: toPage(end - 1) - toPage(from) + 1 }, (_, index) => toPage(from) + index);
    const missing = pages.filter((page) => !this.#rows.has(page));
    const found = await readAll<Row[]>(this.#state, missing.map(pageKey));
    for (const [index, page] of missing.entries()) this.#rows.set(page, found[index] ?? []);
    return pages;
  }
}
