import type { Logger } from "../../../core/log.ts";
import type { Execution } from "../../../engine/execution.ts";
import { handlerReadMs } from "../calls.ts";
import type { RestateClient } from "../client/client.ts";
import type { EventHead } from "../../../engine/rules/take-events.ts";
import { type EventReader, RefusedEvents } from "../../../engine/runs/find-takes.ts";
import { toMailboxKey, type StoredHead } from "./service.ts";

/** The mailboxes as this replica reads them. */
export class LocalMailboxes {
  readonly #client: RestateClient;
  readonly #refused: RefusedEvents;

  constructor(client: RestateClient, logger: Logger) {
    this.#client = client;
    this.#refused = new RefusedEvents(logger);
  }

  /** The events for one execution. Each mailbox is read once. */
  readerOf(execution: Execution): EventReader<EventHead & { readonly hasData: boolean }> {
    const client = this.#client;
    const found = new Map<string, Promise<readonly StoredHead[]>>();
    const read = (mailbox: string): Promise<readonly StoredHead[]> => {
      const heads =
        found.get(mailbox) ?? client.read<readonly StoredHead[]>("mailbox/heads", mailbox, null, handlerReadMs);
      found.set(mailbox, heads);
      return heads;
    };
    return {
      heads: async ({ event }) =>
        (await read(toMailboxKey(event!))).map(({ receivedAt: at, ...head }) => {
          return { ...head, at, order: at, isOlder: at < execution.startAt };
        }),
      data: async ({ id, hasData }, { event }) => {
        if (!hasData) return { text: undefined };
        const mailbox = toMailboxKey(event!);
        const text = await client.read<string | null>("mailbox/data", mailbox, id, handlerReadMs);
        return text === null ? undefined : { text };
      },
      refused: ({ id }, { stepId }, problem) => this.#refused.logOnce(execution, stepId, id, problem),
    };
  }
}
