import type { JsonText } from "../../../core/json.ts";
import { textOf } from "../../../engine/runs/journal-row.ts";
import { setTimeout as sleep } from "node:timers/promises";
import type { HistoryRow } from "../../../engine/contract/engine.ts";
import type { EventCursor, EventPage } from "../../../engine/runs/readers.ts";
import type { Position } from "../../../engine/execution.ts";
import { readPosition } from "../../../engine/steps/read-steps.ts";
import type { Readers } from "../../../engine/runs/readers.ts";
import { localMs } from "../arrivals.ts";
import { persist, type RestateClient } from "../client/client.ts";
import type { LocalDrives } from "../drive/drives.ts";
import type { States } from "./states.ts";
import type { RowPage, StoredRow } from "../drive/rows.ts";
import { toEvents } from "../../../engine/events.ts";

const retryMs = 200;
/** The time in which the row of the last transition comes: its drive stores it after the register has made the transition. */
const lagMs = 2_000;
const pauseMs = 20;

interface StoredEventsParts {
  readonly client: RestateClient;
  readonly states: States;
  readonly drives: LocalDrives;
  readonly readers: Readers;
  readonly closing: AbortSignal;
  /** The id of this process. */
  readonly replica: string;
}

/** Reads the rows of executions, and publishes rows from other replicas to the readers of this one. */
export class StoredEvents {
  readonly #parts: StoredEventsParts;
  readonly #followed = new Set<string>();

  constructor(parts: StoredEventsParts) {
    this.#parts = parts;
  }

  async position(id: string): Promise<Position | undefined> {
    const state = await this.#parts.states.state(id);
    return state && readPosition(state.execution, [await this.firstRows(id)], undefined);
  }

  async firstRows(id: string, count: number = Infinity, limitMs?: number): Promise<StoredRow[]> {
    const all: StoredRow[] = [];
    while (all.length < count) {
      const { rows, last } = await this.#rows(id, all.length, limitMs);
      all.push(...rows);
      if (rows.length === 0 || all.length > (last?.number ?? 0)) break;
    }
    if (count !== Infinity && all.length < count) throw new Error(`Execution ${id} has ${all.length} rows of ${count}`);
    return all.slice(0, count);
  }

  /** The next events after a place. The cursor's `row` counts the rows that were read. */
  async read(id: string, after: EventCursor, signal: AbortSignal): Promise<EventPage> {
    let { row } = after;
    for (;;) {
      const page = await this.#persist(() => this.#rows(id, row), signal);
      const rows = page?.rows ?? [];
      row += rows.length;
      const events = rows.flatMap((one) => toEvents(id, one)).filter(({ seq }) => seq > after.seq);
      if (events.length > 0 || rows.length === 0)
        return { events, last: { row, seq: events.at(-1)?.seq ?? after.seq } };
    }
  }

  /** Resolves to true if more events will come: the execution runs or may be resumed, or its register is ahead of its rows. */
  async isOpen(id: string, signal: AbortSignal, until?: "end"): Promise<boolean> {
    const brief = await this.#persist(() => this.#parts.states.brief(id), signal);
    if (!brief) return false;
    if (brief.status === "running" || (until === "end" && brief.status === "suspended")) return true;
    const page = await this.#persist(() => this.#rows(id, Number.MAX_SAFE_INTEGER), signal);
    return page?.last?.epoch !== brief.epoch;
  }

  /** Publishes the rows of an execution for as long as it has readers here. One loop per execution. */
  async follow(id: string): Promise<void> {
    const { client, drives, readers, closing, replica } = this.#parts;
    if (this.#followed.has(id)) return;
    this.#followed.add(id);
    await sleep(localMs);
    let next: number | undefined;
    let isIdle = false;
    const left = this.#left(id);
    const over = new AbortController();
    void left.then(() => over.abort());
    const stop = AbortSignal.any([closing, over.signal]);
    while (readers.has(id) && !closing.aborted) {
      await Promise.race([drives.gone(id), left]);
      const page = await this.#persist(() => this.#rows(id, next ?? Number.MAX_SAFE_INTEGER), closing);
      if (!page || !readers.has(id)) break;
      // Start with the last row. A reader that has missed earlier rows reads them from the store.
      const rows = next === undefined && page.last ? [page.last] : page.rows;
      for (const row of rows) for (const event of toEvents(id, row)) readers.publish(id, event);
      // `last` may be newer than `rows`: a row can be stored between the two reads.
      const newest = rows.at(-1);
      if (newest) {
        next = newest.number + 1;
        isIdle = false;
        continue;
      }
      const suspendedEpoch = isIdle ? await this.#suspendedEpoch(id, page, stop) : undefined;
      const input = { id, afterRow: (next ?? 0) - 1, replica, suspendedEpoch };
      await client.wait("row", input, stop).catch(() => sleep(retryMs));
      await sleep(isIdle ? retryMs : localMs);
      isIdle = true; // without a drive, the wait ends at once: the last row is on its way
    }
    this.#followed.delete(id);
    if (readers.has(id) && !closing.aborted) void this.follow(id);
  }

  /** The epoch of the suspension that ends these rows; undefined if the execution is not suspended or more rows follow. */
  async #suspendedEpoch(id: string, { last }: RowPage, signal: AbortSignal): Promise<number | undefined> {
    const brief = await this.#persist(() => this.#parts.states.brief(id), signal);
    return brief?.status === "suspended" && last?.epoch === brief.epoch ? brief.epoch : undefined;
  }

  /** Resolves when the execution has no readers here. */
  async #left(id: string): Promise<void> {
    while (this.#parts.readers.has(id)) await sleep(retryMs, undefined, { ref: false });
  }

  #rows(id: string, from: number, limitMs?: number): Promise<RowPage> {
    return this.#parts.client.read("drive/rows", id, from, limitMs);
  }

  /** The rows of an execution, a page at a time. They include the transition that a caller has seen, unless it is late. */
  async *history(id: string): AsyncGenerator<readonly HistoryRow[]> {
    const { client, states } = this.#parts;
    const brief = await states.brief(id);
    if (!brief) return;
    const until = performance.now() + lagMs;
    for (let next = 0; ;) {
      const { rows, last } = await client.read<RowPage>("drive/shortRows", id, next); // without long values
      next += rows.length;
      if (rows.length > 0) yield rows;
      if (last && next <= last.number) continue;
      const isWhole = brief.status === "running" || (last?.epoch ?? 0) >= brief.epoch;
      if (isWhole || performance.now() > until) return;
      await sleep(pauseMs);
    }
  }

  async text(id: string, number: number): Promise<JsonText | undefined> {
    const stored = await this.#parts.client.read<StoredRow | null>("drive/row", id, number);
    return stored?.row && textOf(stored.row);
  }

  /** Tries again while Restate cannot be reached: a stream does not end with a failed read. Undefined: the reader is disconnected. */
  async #persist<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    if (signal.aborted) return undefined;
    return persist(read, { maxMs: retryMs, onFailure: () => signal.throwIfAborted() }).catch(() => undefined);
  }
}
