import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "../../../core/id.ts";
import type { Logger } from "../../../core/log.ts";
import { UsageQueue } from "../../../engine/stored/usage-queue.ts";
import type { UsageFilter, UsagePage, UsageRow, UsageStore } from "../../../engine/contract/usage.ts";
import type { ServiceNames } from "../calls.ts";
import type { RestateClient } from "../client/client.ts";
import { readUsage } from "./read.ts";
import { toUsageKey } from "./usage-text.ts";

interface Parts {
  readonly client: RestateClient;
  readonly names: ServiceNames;
  /** Resolves after the first registration, or the first failure of it. */
  readonly known: Promise<void>;
  readonly logger: Logger;
}

/** The objects that are called at the same time. */
const atOnce = 16;
/** The longest pause before counts are sent again. */
const maxPauseMs = 5_000;

/** Usage in Restate. Each conversation has an object with its sums. */
export class RestateUsage implements UsageStore {
  readonly #parts: Parts;
  readonly #queue: UsageQueue;

  constructor(parts: Parts) {
    this.#parts = parts;
    const onLost = (calls: number, error?: unknown): void =>
      parts.logger.error("The usage of model calls could not be stored", { calls, error });
    this.#queue = new UsageQueue({ write: (rows) => this.#write(rows), onLost });
  }

  count(row: UsageRow): void {
    this.#queue.add(row);
  }

  /** Sends what waits. Resolves when Restate has it, or after a time. */
  async close(limitMs: number): Promise<void> {
    await Promise.race([this.#queue.flush(), sleep(limitMs, undefined, { ref: false })]);
  }

  async read(filter: UsageFilter): Promise<UsagePage> {
    const { client, names, known } = this.#parts;
    await known;
    return readUsage(client, names, filter);
  }

  async #write(rows: readonly UsageRow[]): Promise<boolean> {
    await this.#parts.known;
    const objects = [...Map.groupBy(rows, toUsageKey)];
    for (let from = 0; from < objects.length; from += atOnce)
      await Promise.all(objects.slice(from, from + atOnce).map(([key, parts]) => this.#send(key, parts)));
    return true;
  }

  /** Sends the counts of an object until Restate has them. It counts a message that is sent twice once, by its id. */
  async #send(key: string, rows: readonly UsageRow[]): Promise<void> {
    const { client, names } = this.#parts;
    const parts = rows.map(({ agentId: _agent, userId: _user, conversationId: _conversation, ...part }) => part);
    const id = newId();
    for (let pauseMs = 100; ; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
      try {
        await client.sendOnce(names.usage, key, "add", parts, { id });
        return;
      } catch {
        await sleep(pauseMs, undefined, { ref: false });
      }
    }
  }
}
