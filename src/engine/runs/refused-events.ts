import { withIds, type Logger } from "../../core/log.ts";
import type { Execution } from "../execution.ts";
import { toSentId } from "../stored/sent-event.ts";

/** Max remembered events. Beyond it the oldest one is forgotten, and may be logged again. */
const maxRefused = 10_000;

/** Logs each event once that the schema of a waiting step has refused. */
export class RefusedEvents {
  readonly #logger: Logger;
  readonly #logged = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  add({ id, workflowId }: Execution, stepId: string, event: string, problem: string): void {
    const key = `${id}/${stepId} ${event}`;
    if (this.#logged.has(key)) return;
    this.#logged.add(key);
    const [oldest] = this.#logged;
    if (this.#logged.size > maxRefused) this.#logged.delete(oldest!);
    const logger = withIds(this.#logger, { executionId: id, workflowId, stepId });
    logger.warn("An event does not match the schema of the step that waits for it", {
      event: toSentId(event),
      problem,
    });
  }
}
