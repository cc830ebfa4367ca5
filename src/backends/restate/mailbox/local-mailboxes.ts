import type { JsonText } from "../../../core/json.ts";
import { withIds, type Logger } from "../../../core/log.ts";
import type { Execution } from "../../../engine/execution.ts";
import { toSentId } from "../../../engine/sent-event.ts";
import { handlerReadMs, type ServiceNames } from "../calls.ts";
import type { RestateClient } from "../client/client.ts";
import type { MailboxReader } from "./find-takes.ts";
import type { EventHead } from "./service.ts";

/** The most refused events that are remembered. */
const mostWarned = 10_000;

interface MailboxesParts {
  readonly client: RestateClient;
  readonly names: ServiceNames;
  readonly logger: Logger;
}

/** The mailboxes as this replica reads them. */
export class LocalMailboxes implements MailboxReader {
  readonly #parts: MailboxesParts;
  readonly #warned = new Set<string>();

  constructor(parts: MailboxesParts) {
    this.#parts = parts;
  }

  eventHeads(mailbox: string): Promise<readonly EventHead[]> {
    const { client, names } = this.#parts;
    return client.read(names.mailbox, mailbox, "heads", null, handlerReadMs);
  }
  async eventData(mailbox: string, id: string): Promise<JsonText | undefined> {
    const { client, names } = this.#parts;
    return (await client.read<JsonText | null>(names.mailbox, mailbox, "data", id, handlerReadMs)) ?? undefined;
  }

  refused({ id, workflowId }: Execution, stepId: string, event: string, problem: string): void {
    const key = `${id}/${stepId} ${event}`;
    if (this.#warned.has(key) || this.#warned.size >= mostWarned) return;
    this.#warned.add(key);
    const logger = withIds(this.#parts.logger, { executionId: id, workflowId, stepId });
    logger.warn("An event does not match the schema of the step that waits for it", {
      event: toSentId(event),
      problem,
    });
  }
}
