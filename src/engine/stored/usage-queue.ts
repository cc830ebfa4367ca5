import { addCounts, type UsageRow } from "../contract/usage.ts";

export interface UsageQueueOptions {
  /** Stores rows, each with another key. Resolves to false if they were not stored, and may be later. */
  readonly write: (rows: readonly UsageRow[]) => Promise<boolean>;
  /** Called when calls are lost: the store has failed, or could not be written for long. */
  readonly onLost: (calls: number, error?: unknown) => void;
}

/** The time for which rows wait for others. */
const waitMs = 1_000;
/** The rows that are written before that. */
const fullRows = 256;
/** Max rows that wait while the store cannot be written. */
const maxRows = 10_000;

/** Usage before its write: many calls share a commit. Calls of one row are added up at once. */
export class UsageQueue {
  readonly #options: UsageQueueOptions;
  #rows = new Map<string, UsageRow>();
  #timer: NodeJS.Timeout | undefined;
  readonly #writes = new Set<Promise<void>>();
  /** The calls that found no place. */
  #lost = 0;

  constructor(options: UsageQueueOptions) {
    this.#options = options;
  }

  add(row: UsageRow): void {
    this.#merge(row);
    this.#schedule();
  }

  #merge(row: UsageRow): void {
    const key = toKey(row);
    const known = this.#rows.get(key);
    if (!known && this.#rows.size >= maxRows) this.#lost += row.calls;
    else this.#rows.set(key, known ? { ...row, ...addCounts(known, row) } : row);
  }

  /** Writes soon. While a write is in flight, rows wait for its end. */
  #schedule(): void {
    if (this.#rows.size === 0 || this.#writes.size > 0) return;
    if (this.#rows.size >= fullRows) void this.flush();
    // Real time: a clock that tests move must not delay it.
    else this.#timer ??= setTimeout(() => void this.flush(), waitMs).unref();
  }

  /** Begins to write what waits, at once. Resolves when no write is in flight. Never rejects. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#rows.size > 0) {
      const write = this.#write().finally(() => {
        this.#writes.delete(write);
        this.#schedule();
      });
      this.#writes.add(write);
    }
    await Promise.all(this.#writes);
  }

  async #write(): Promise<void> {
    const { write, onLost } = this.#options;
    const rows = [...this.#rows.values()];
    this.#rows = new Map();
    try {
      if (await write(rows)) {
        if (this.#lost > 0) onLost(this.#lost);
        this.#lost = 0;
      } else for (const row of rows) this.#merge(row);
    } catch (error) {
      onLost(
        rows.reduce((sum, { calls }) => sum + calls, 0),
        error,
      );
    }
  }
}

const toKey = ({ agentId, userId, conversationId, day, model }: UsageRow): string =>
  JSON.stringify([agentId, userId ?? null, conversationId ?? null, day, model]);
