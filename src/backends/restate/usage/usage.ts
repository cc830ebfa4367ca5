import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "../../../core/id.ts";
import type { Logger } from "../../../core/log.ts";
import { UsageQueue } from "../../../engine/stored/usage-queue.ts";
import type { UsageFilter, UsagePage, UsageRow, UsageStore } from "../../../engine/contract/usage.ts";
import { persist, type RestateClient } from "../client/client.ts";
import { readUsage } from "./read.ts";
import { toUsageKey } from "./usage-text.ts";

/** The objects that are called at the same time. */
const atOnce = 16;
/** The longest pause before counts are sent again. */
const maxPauseMs = 5_000;

/** Usage in Restate. Each conversation has an object with its sums. */
export class RestateUsage implements UsageStore {
  readonly #client: RestateClient;
  readonly #queue: UsageQueue;

  constructor(client: RestateClient, logger: Logger) {
    this.#client = client;
    const onLost = (calls: number, error?: unknown): void =>
      logger.error("The usage of model calls could not be stored", { calls, error });
    this.#queue = new UsageQueue({ write: (rows) => this.#write(rows), onLost });
  }

  count(row: UsageRow): void {
    this.#queue.add(row);
  }

  /** Sends what waits. Resolves when Restate has it, or after a time. */
  async close(limitMs: number): Promise<void> {
    await Promise.race([this.#queue.flush(), sleep(limitMs, undefined, { ref: false })]);
  }

  read(filter: UsageFilter): Promise<UsagePage> {
    return readUsage(this.#client, filter);
  }

  async #write(rows: readonly UsageRow[]): Promise<boolean> {
    const objects = [...Map.groupBy(rows, toUsageKey)];
    for (let from = 0; from < objects.length; from += atOnce)
      await Promise.all(objects.slice(from, from + atOnce).map(([key, parts]) => this.#send(key, parts)));
    return true;
  }

  /** Sends the counts of an object until Restate has them. It counts a message that is sent twice once, by its id. */
  async #send(key: string, rows: readonly UsageRow[]): Promise<void> {
    const parts = rows.map(({ agentId: _agent, userId: _user, conversationId: _conversation, ...part }) => part);
    const id = newId();
    await persist(() => this.#client.sendOnce("usage/add", key, parts, { id }), { maxMs: maxPauseMs });
  }
}
